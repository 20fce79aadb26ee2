package fleet

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// windowCounts is what was admitted and denied to clients in windows of the server's
// clock, which is this machine's.
type windowCounts struct {
	mu       sync.Mutex
	most     map[[2]int64]uint64 // client, window: units that may be of this window; guarded by mu
	checked  map[[2]int64]uint64 // of them, those of the exact tier that are certainly of it; guarded by mu
	denials  int                 // guarded by mu
	tables   int                 // of those, by tables; guarded by mu
	fallback int                 // guarded by mu
}

// ask sends one request of a client and checks its verdict: a denial is explained by
// what may have been counted in a window that the request was under way in.
func (c *windowCounts) ask(t *testing.T, r *fastlimit.Rule, client byte, n uint64) {
	t.Helper()
	window := func() int64 { return time.Now().UnixNano() / int64(r.Config().Rate.Per) }
	first := window()
	d := take(r, client, n)
	last := window()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d.Stage == fastlimit.StageFallback:
		c.fallback++
	case d.Allowed:
		for w := first; w <= last; w++ {
			c.most[[2]int64{int64(client), w}] += n
		}
		if first == last && d.Stage == fastlimit.StageExact {
			c.checked[[2]int64{int64(client), first}] += n
		}
	default:
		c.denials++
		if d.Stage == fastlimit.StageTable {
			c.tables++
		}
		if most := max(c.most[[2]int64{int64(client), first}], c.most[[2]int64{int64(client), last}]); most+n <= r.Config().Rate.N {
			t.Errorf("P1: %d units denied at stage %v with at most %d of %d counted", n, d.Stage, most, r.Config().Rate.N)
		}
	}
}

// tested reports whether the store and tables have denied, in several windows.
func (c *windowCounts) tested() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denials > 0 && c.tables > 0 && len(c.checked) >= 16
}

// Windows has one, two and three nodes count the windows of one rule, over their
// ends: what they admit through the store in each is the limit at most, and nobody is
// denied who has not used it up.
func (f Fleet) Windows(t *testing.T) {
	t.Helper()
	sizes(func(nodes int) func() {
		rules := f.rules(t, nodes, fastlimit.RuleConfig{
			Name: "a", Rate: fastlimit.Rate{N: 40, Per: time.Second}, Algorithm: fastlimit.FixedWindow, OnFailure: fastlimit.FailClosed,
		})
		return func() {
			c := &windowCounts{most: map[[2]int64]uint64{}, checked: map[[2]int64]uint64{}}
			decisions := f.ask(t, nodes, c.tested, func(rng *rand.Rand, client byte, node int) { c.ask(t, rules[node], client, 1+rng.Uint64N(3)) })
			t.Logf("%d nodes: %d decisions, %d denials, %d of them by tables, %d windows of clients", nodes, decisions, c.denials, c.tables, len(c.checked))
			for w, n := range c.checked {
				if n > 40 {
					t.Errorf("P2: %d nodes: the store admitted client %d %d units of 40 in window %d", nodes, w[0], n, w[1])
				}
			}
			if !c.tested() {
				t.Errorf("%d nodes: %d denials, %d by tables, %d windows, %d fallbacks: nothing was tested", nodes, c.denials, c.tables, len(c.checked), c.fallback)
			}
		}
	})
}
