// Package fleet has nodes decide together, by one shared store, in real time, and compares
// with oracles what they admit and deny: nobody is denied who conforms (P1), and what
// is admitted conforms (P2), whenever in its flight each unit was charged. Oracles go by
// this machine's clock, which is the store's.
package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Server starts a server and returns what opens a store on it, for a node each, which is
// closed when the test ends.
type Server func(t testing.TB, timeout time.Duration) (open func() bucket.Store)

// Fleet is a server to test, and how much.
type Fleet struct {
	Server    Server
	Decisions int64         // at least, for each number of nodes, or rule of Lossy; without, as many as there are in 1.5 s, or 3
	Ahead     time.Duration // what the server's clock is ahead of this machine's; only Lossy knows of it
}

// nodes make limiters with the same rules, which share a store.
func (f Fleet) nodes(t *testing.T, n int, timeout time.Duration, c fastlimit.Config) (nodes []*fastlimit.Limiter) {
	t.Helper()
	open := f.Server(t, timeout)
	for range n {
		c.Store, c.StoreTimeout, c.Memory = open(), timeout, 2<<20
		lim, err := fastlimit.New(c)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, lim)
	}
	return nodes
}

// rules is one rule at as many nodes.
func (f Fleet) rules(t *testing.T, nodes int, rule fastlimit.RuleConfig) (rules []*fastlimit.Rule) {
	t.Helper()
	for _, lim := range f.nodes(t, nodes, time.Second, fastlimit.Config{Rules: []fastlimit.RuleConfig{rule}}) {
		rules = append(rules, lim.Rules()[0])
	}
	return rules
}

// atLeast is for how long clients ask. A rate that is kept half as well as it should be
// admits as much more then as slack explains, and half of that beside it.
const atLeast = 1500 * time.Millisecond

// clients is how many ask.
const clients = 8

// ask has clients ask one request after the other, each at any node, for some time, until there
// are as many decisions as wanted, and until tested says so.
func (f Fleet) ask(t *testing.T, nodes int, tested func() bool, ask func(rng *rand.Rand, client byte, node int)) (decisions int64) {
	var all sync.WaitGroup
	var decided atomic.Int64
	begin, end := time.Now(), testkit.Deadline(t)
	for client := range byte(clients) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), uint64(nodes)))
			for time.Since(begin) < atLeast || decided.Load() < f.Decisions || !tested() && time.Now().Before(end) {
				decided.Add(1)
				ask(rng, client, rng.IntN(nodes))
				if f.Decisions == 0 || rng.IntN(32) == 0 {
					time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Millisecond))))
				}
			}
		})
	}
	all.Wait()
	return decided.Load()
}

// sizes runs a test on one, two and three nodes at the same time: mostly they wait. make
// makes the nodes, which may end the test, and returns what runs.
func sizes(make func(nodes int) (run func())) {
	var all sync.WaitGroup
	var runs []func()
	for nodes := 1; nodes <= 3; nodes++ {
		runs = append(runs, make(nodes))
	}
	for _, run := range runs {
		all.Go(run)
	}
	all.Wait()
}

// tally counts denials. It is safe for concurrent use.
type tally [8]atomic.Int64 // by stage

func (d *tally) add(s fastlimit.Stage) { d[s].Add(1) }

// tested reports whether both the store and the nodes' tables have denied. A node alone
// knows all that the store does.
func (d *tally) tested(nodes int) bool {
	return d[fastlimit.StageTable].Load() > 0 && (d[fastlimit.StageExact].Load() > 0 || nodes == 1)
}

func (d *tally) check(t *testing.T, nodes int, decisions int64) {
	t.Helper()
	t.Logf("%d nodes: %d decisions, %d denials by the store and %d by tables", nodes, decisions, d[fastlimit.StageExact].Load(), d[fastlimit.StageTable].Load())
	if !d.tested(nodes) {
		t.Errorf("%d nodes: nothing was tested", nodes)
	}
}

// take is a request of a client.
func take(r *fastlimit.Rule, client byte, n uint64) fastlimit.Decision {
	return r.Take(context.Background(), r.BytesKey([]byte{client}), n)
}
