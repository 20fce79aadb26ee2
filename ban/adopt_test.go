package ban

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Of a client that both tables know the denials of the one that counts more count, those since
// the last ban of either.
func TestAdoptBothKnow(t *testing.T) {
	t.Parallel()
	const now, ahead = 1000 * time.Second, 500 * time.Second                                 // of the other's clock
	p := Policy{After: 10, Within: 160 * time.Second, For: 30 * time.Second, Max: time.Hour} // one of 20 s is forgotten
	d := sketch.Digest{Pos: 1 << 40, ID: 5}
	type record struct {
		denials int
		ago     time.Duration // when
		ban     time.Duration // for so long, begun 100 s ago; 0: none
	}
	for name, tc := range map[string]struct {
		ours, theirs record
		more         int // denials until a ban begins; 0: one runs
	}{
		"they count more":     {record{denials: 1}, record{denials: 8}, 2},
		"we count more":       {record{denials: 8}, record{denials: 1}, 2},
		"both the same":       {record{denials: 8}, record{denials: 8}, 2},
		"theirs are older":    {record{denials: 5}, record{denials: 8, ago: 90 * time.Second}, 2},
		"theirs are too old":  {record{denials: 5}, record{denials: 8, ago: 170 * time.Second}, 5},
		"they remember a ban": {record{denials: 8}, record{denials: 1, ban: 20 * time.Second}, 2},
		"we remember a ban":   {record{denials: 1, ban: 20 * time.Second}, record{denials: 8}, 2},
		"ours before theirs":  {record{denials: 8, ago: 90 * time.Second}, record{denials: 1, ban: 20 * time.Second}, 9},
		"theirs before ours":  {record{ban: 20 * time.Second}, record{denials: 8, ago: 90 * time.Second}, 10},
		"their ban runs":      {record{denials: 8}, record{ban: time.Hour}, 0},
		"our ban runs":        {record{ban: time.Hour}, record{denials: 8}, 0},
	} {
		ours, theirs := newTable(4, p.Within), newTable(4, p.Within)
		for table, r := range map[*Table]record{ours: tc.ours, theirs: tc.theirs} {
			at := now
			if table == theirs {
				at += ahead
			}
			if r.ban > 0 {
				q := Policy{After: 1, Within: p.Within, For: r.ban, Max: r.ban}
				table.Deny(&q, d, at-100*time.Second)
				table.Begin(&q, d, at-100*time.Second, nil)
			}
			for range r.denials {
				table.Deny(&p, d, at-r.ago)
			}
		}
		ours.Adopt(theirs, &p, now+ahead, now)
		if _, banned := ours.Banned(d, now); banned != (tc.more == 0) {
			t.Errorf("%s: banned is %v", name, banned)
		}
		for n := 1; n <= tc.more; n++ {
			begun := false
			if ours.Deny(&p, d, now) {
				_, _, begun = ours.Begin(&p, d, now, nil)
			}
			if begun != (n == tc.more) {
				t.Errorf("%s: after %d more denials a ban began: %v", name, n, begun)
				break
			}
		}
	}
}
