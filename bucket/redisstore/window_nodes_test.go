package redisstore_test

import (
	"context"
	"flag"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
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
	d := r.Take(context.Background(), r.BytesKey([]byte{client}), n)
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

var fleetDecisions = flag.Int64("decisions", 0, "least decisions of the tests of nodes on one Redis, for each number of nodes")

// nodesOnRedis is a rule at as many nodes, which share a Redis.
func nodesOnRedis(t *testing.T, nodes int, rule fastlimit.RuleConfig) (rules []*fastlimit.Rule) {
	t.Helper()
	server := redistest.Start(t)
	for range nodes {
		store, err := redisstore.Open(t.Context(), redisstore.Config{URL: "redis://" + server.Addr, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close(context.Background()) })
		lim, err := fastlimit.New(fastlimit.Config{Store: store, StoreTimeout: time.Second, Memory: 2 << 20, Rules: []fastlimit.RuleConfig{rule}})
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, lim.Rules()[0])
	}
	return rules
}

// askNodes has clients ask one request after the other, each at any node, for 2.5 s
// or until there are as many decisions as wanted.
func askNodes(nodes int, ask func(rng *rand.Rand, client byte, node int)) (decisions int64) {
	var all sync.WaitGroup
	var decided atomic.Int64
	begin := time.Now()
	for client := range byte(8) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), uint64(nodes)))
			for time.Since(begin) < 2500*time.Millisecond || decided.Load() < *fleetDecisions {
				decided.Add(1)
				ask(rng, client, rng.IntN(nodes))
				if *fleetDecisions == 0 || rng.IntN(32) == 0 {
					time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Millisecond))))
				}
			}
		})
	}
	all.Wait()
	return decided.Load()
}

// One, two and three nodes count the windows of one rule in one Redis, over their
// ends: what they admit through Redis in each is the limit at most, and nobody is
// denied who has not used it up.
func TestWindowsOfNodesOnRedis(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 3; nodes++ {
		rules := nodesOnRedis(t, nodes, fastlimit.RuleConfig{
			Name: "a", Rate: fastlimit.Rate{N: 40, Per: time.Second}, Algorithm: fastlimit.FixedWindow, OnFailure: fastlimit.FailClosed,
		})
		c := &windowCounts{most: map[[2]int64]uint64{}, checked: map[[2]int64]uint64{}}
		decisions := askNodes(nodes, func(rng *rand.Rand, client byte, node int) { c.ask(t, rules[node], client, 1+rng.Uint64N(3)) })
		t.Logf("%d nodes: %d decisions, %d denials, %d of them by tables, %d windows of clients", nodes, decisions, c.denials, c.tables, len(c.checked))
		for w, n := range c.checked {
			if n > 40 {
				t.Errorf("P2: %d nodes: Redis admitted client %d %d units of 40 in window %d", nodes, w[0], n, w[1])
			}
		}
		if c.denials == 0 || c.tables == 0 || len(c.checked) < 16 {
			t.Errorf("%d nodes: %d denials, %d by tables, %d windows, %d fallbacks: nothing was tested", nodes, c.denials, c.tables, len(c.checked), c.fallback)
		}
	}
}
