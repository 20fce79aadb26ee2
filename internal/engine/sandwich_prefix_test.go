package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Clients that share the bucket of a further rule, as those of one prefix do
// (policy.Prefixes): the sandwich holds for the prefix as for a client, and for each client
// within it.
func TestSandwichOfPrefixes(t *testing.T) {
	t.Parallel()
	const members, size = 3, 8
	wide := geometry{blocks: 1 << 10, sets: 1 << 12, words: 1 << 12, hash: randomHash}
	tiny := geometry{blocks: 1, sets: 1 << 12, words: 1, hash: randomHash}
	both := func(c limit.RuleConfig) []limit.RuleConfig {
		p := c
		p.Name, p.Rate.N, p.Burst = c.Name+"/24", members*c.Rate.N, members*c.Burst
		return []limit.RuleConfig{c, p}
	}
	const k = 1000
	for i, c := range []sandwichCase{
		{"buckets", both(rule("a", 10, time.Second, 20)), wide, 64, 600 * k, false},
		{"one block", both(rule("a", 10, time.Second, 20)), tiny, 64, 400 * k, false},
		{"small burst", both(rule("a", 2, time.Second, 3)), wide, 64, 300 * k, false},
		{"strict", both(withStrict(rule("a", 7, time.Second, 13))), wide, 64, 300 * k, false},
		{"windows", both(windowRule("a", 20, time.Second)), wide, 64, 300 * k, false},
		{"sliding", both(slidingRule("a", 20, time.Second)), wide, 64, 300 * k, false},
		{"logs", both(logRule("a", 20, time.Second)), wide, 64, 300 * k, false},
	} {
		steps := c.steps
		if raceEnabled {
			steps /= 20
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(i), 17))
			for steps > 0 {
				w := newWorld(t, rng, c.clients, c.geo, c.rules...)
				for client := range w.digests {
					first := client - client%size
					w.digests[client][1], w.truth[client][1] = w.digests[first][1], w.truth[first][1]
				}
				steps -= drive(t, w, rng, steps)
			}
		})
	}
}
