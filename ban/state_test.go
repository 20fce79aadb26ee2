package ban

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// TestState: a table that was written and read goes on as the one that it was, denial by
// denial, also where some of them are about to be too old to count.
func TestState(t *testing.T) {
	t.Parallel()
	p, err := Policy{After: 20, Within: 16 * time.Second, For: 10 * time.Second, Max: time.Minute}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 51))
	tables := []*Table{New(1000, p.Within), nil}
	now, begun := time.Hour, 0
	for i := range 200_000 {
		if i%500 == 0 {
			next := New(1000, p.Within)
			for x := 0; ; {
				var piece []byte
				piece, x = tables[0].AppendState(nil, &p, x, now)
				if err := next.RestoreState(piece); err != nil {
					t.Fatal(err)
				}
				if x == 0 {
					break
				}
			}
			tables[1] = next
		}
		now += time.Duration(rng.Int64N(int64(160 * time.Millisecond)))
		k := uint64(rng.IntN(10)) // each is denied about every 0.8 s
		d := sketch.Digest{Pos: k * 0x9e3779b97f4a7c15, ID: k + 1<<60}
		var bans [2]Ban
		var did [2]bool
		told, taken, left := rng.IntN(20) == 0, rng.IntN(20) == 0, time.Duration(rng.Int64N(int64(p.Max)))
		for j, table := range tables {
			if told {
				table.Impose(&p, d, now, left, 1, []byte("name"))
			}
			if taken {
				table.LiftImposed(d, now)
			}
			if table.Deny(&p, d, now) {
				bans[j], _, did[j] = table.Begin(&p, d, now, []byte("name"))
			}
		}
		if bans[0] != bans[1] || did[0] != did[1] {
			t.Fatalf("denial %d: %+v %v, and by the table that was read %+v %v", i, bans[0], did[0], bans[1], did[1])
		}
		if did[0] {
			begun++
		}
	}
	if begun < 100 {
		t.Errorf("%d bans begun", begun)
	}
}
