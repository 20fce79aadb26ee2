package ban

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// fullOf returns a table of two sets in which each client has denials and none is banned.
func fullOf(t *testing.T, p *Policy, r *rand.Rand, denials func() int) *Table {
	t.Helper()
	tb := newTable(2, p.Within)
	for range 2 * ways {
		d := randomDigest(r)
		for range denials() {
			if tb.Deny(p, d, 0) {
				t.Fatal("a ban is due")
			}
		}
	}
	return tb
}

// A client that is denied once replaces one with 9 denials one time in 10, and one with none
// left always.
func TestNewcomersChance(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 50, For: time.Hour})
	r := rand.New(rand.NewPCG(7, 8))
	const trials = 10_000
	nine := func() int { return 9 }
	entered := 0
	for range trials {
		tb, d := fullOf(t, &p, r, nine), randomDigest(r)
		tb.Deny(&p, d, 0)
		if has(tb, d) {
			entered++
		}
	}
	if entered < trials*8/100 || entered > trials*12/100 {
		t.Errorf("%d of %d took the place of a client with 9 denials, want a tenth", entered, trials)
	}
	tb, d := fullOf(t, &p, r, nine), randomDigest(r)
	tb.Deny(&p, d, 2*p.Within)
	if !has(tb, d) {
		t.Error("no place beside clients whose denials were too long ago")
	}
}

// inTwoSets returns a digest with two sets to be in.
func inTwoSets(tb *Table, r *rand.Rand) sketch.Digest {
	for {
		d := randomDigest(r)
		if x, y := tb.sets(d); x != y {
			return d
		}
	}
}

// A ban from elsewhere, told or adopted, finds room beside clients that are not banned, however
// often they were denied, until both sets are full of bans.
func TestRoomForBans(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 50, For: time.Hour})
	r := rand.New(rand.NewPCG(9, 10))
	tell := func(tb *Table, d sketch.Digest) { tb.Impose(&p, d, 0, time.Hour, 1, nil) }
	adopt := func(tb *Table, d sketch.Digest) {
		other := newTable(2, p.Within)
		tell(other, d)
		tb.Adopt(other, &p, 0, 0)
	}
	for name, ban := range map[string]func(*Table, sketch.Digest){"told": tell, "adopted": adopt} {
		for range 100 {
			tb := fullOf(t, &p, r, func() int { return 1 + r.IntN(49) })
			for i := range 2 * most {
				d := inTwoSets(tb, r)
				if ban(tb, d); tb.Stats(0).Running != i+1 {
					t.Fatalf("%s: ban %d found no room", name, i)
				}
			}
			for x := range 2 {
				if n := tb.bannedLocked(x, 0); n != most {
					t.Fatalf("%s: %d of set %d are banned", name, n, x)
				}
			}
		}
	}
	tb := newTable(2, p.Within)
	for range 2 * most {
		tell(tb, inTwoSets(tb, r))
	}
	if left := tb.Impose(&p, randomDigest(r), 0, time.Hour, 1, nil); left != 0 {
		t.Errorf("one more for %v", left)
	}
}

// The last places of sets that are full of bans are for clients that are not banned: adopted
// ones take them, and do not replace each other.
func TestRoomBesideBans(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 50, For: time.Hour})
	r := rand.New(rand.NewPCG(11, 12))
	for range 100 {
		tb, other := newTable(2, p.Within), newTable(2, p.Within)
		for range 2 * most {
			tb.Impose(&p, inTwoSets(tb, r), 0, time.Hour, 1, nil)
		}
		suspects := []sketch.Digest{inTwoSets(tb, r), inTwoSets(tb, r)}
		for _, d := range suspects {
			other.Deny(&p, d, 0)
		}
		tb.Adopt(other, &p, 0, 0)
		for i, d := range suspects {
			if !has(tb, d) {
				t.Fatalf("suspect %d of two was lost, with two places left", i)
			}
		}
	}
}

func has(tb *Table, d sketch.Digest) bool { r, _ := tb.find(d); return r != nil }
