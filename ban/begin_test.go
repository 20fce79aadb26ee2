package ban

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Own is what is left of the ban that the rule itself began, however much longer another
// source's ban of the client lasts.
func TestOwnIsOfTheRule(t *testing.T) {
	t.Parallel()
	p := mustPolicy(Policy{After: 1, For: time.Minute, Max: time.Hour})
	tb, d, now := newTable(2, p.Within), randomDigest(rand.New(rand.NewPCG(13, 14))), 10*time.Second
	tb.Impose(&p, d, now, time.Second, 1, nil)
	if b := slices.Collect(tb.All(now))[0]; b.Left != time.Second || b.Own != 0 {
		t.Errorf("told: %+v", b)
	}
	now += 2 * time.Second
	tb.Deny(&p, d, now)
	if b, _, begun := tb.Begin(&p, d, now, nil); !begun || b.Left != time.Minute || b.Own != time.Minute {
		t.Errorf("begun: %+v", b)
	}
	tb.Impose(&p, d, now, time.Hour, 1, nil)
	now += 20 * time.Second
	if b := slices.Collect(tb.All(now))[0]; b.Left != time.Hour-20*time.Second || b.Own != 40*time.Second {
		t.Errorf("both: %+v", b)
	}
	now += time.Minute
	if b := slices.Collect(tb.All(now))[0]; b.Own != 0 {
		t.Errorf("after the rule's own: %+v", b)
	}
}
