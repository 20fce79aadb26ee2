package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// windowFleet is nodes that count windows of one rule in one store, whose clock is
// not theirs, and what an oracle knows of each client: what was admitted by the
// store or in its place in each of its windows, and what passed unchecked at each
// node in each of that node's windows.
type windowFleet struct {
	nodes []*Limiter
	store *memstore.Store
	clock func() time.Duration // the store's

	mu        sync.Mutex
	exact     map[[2]int64]uint64 // client, the store's window; guarded by mu
	unchecked map[[3]int64]uint64 // client, node, its window; guarded by mu
	denials   int                 // guarded by mu
	tables    int                 // of those, by tables; guarded by mu
	faults    []string            // guarded by mu
}

func newWindowFleet(t *testing.T, rng *rand.Rand, nodes int, c limit.RuleConfig) *windowFleet {
	t.Helper()
	start, offset := time.Now(), time.Duration(rng.Int64N(int64(20*time.Second)))-10*time.Second
	drift := rng.Float64()*8e-4 - 4e-4
	f := &windowFleet{exact: map[[2]int64]uint64{}, unchecked: map[[3]int64]uint64{}}
	f.clock = func() time.Duration {
		since := time.Since(start)
		return time.Duration(start.UnixNano()) + since + offset + time.Duration(drift*float64(since))
	}
	f.store = memstore.New(memstore.Config{Now: func() uint64 { return uint64(f.clock() / time.Microsecond) }})
	t.Cleanup(func() { _ = f.store.Close(context.Background()) })
	for range nodes {
		var s *slowStore
		s = s.sibling()
		s.Store = f.store
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(rng.Uint64(), 1))
		s.delay = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(rng.Int64N(int64(time.Millisecond)))
		}
		s.back = s.delay
		f.nodes = append(f.nodes, sharedLimiter(t, s, c))
	}
	return f
}

// ask sends one request and checks the verdict: a denial is explained by what the
// store has counted in one of its windows while the request was under way.
func (f *windowFleet) ask(client, node int, n uint64) {
	r := f.nodes[node].rules[0]
	key, per := r.BytesKey([]byte{byte(client)}), int64(r.config.Rate.Per)
	first, local := int64(f.clock())/per, int64(r.buckets.Clock.WallTime(r.buckets.Clock.Now()))/per
	d := r.Take(context.Background(), key, n)
	last := int64(f.clock()) / per
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case d.Allowed && (d.Stage == limit.StageFilter || d.Stage == limit.StageSketch):
		f.unchecked[[3]int64{int64(client), int64(node), local}] += n
	case d.Allowed:
		f.exact[[2]int64{int64(client), last}] += n
		if first != last { // it counts in one of the two
			f.exact[[2]int64{int64(client), first}] += n
			f.exact[[2]int64{int64(-client - 1), last}] += n // so much may be of the other
		}
	default:
		f.denials++
		if d.Remaining >= int64(n) || d.RetryAfter <= 0 {
			f.faults = append(f.faults, fmt.Sprintf("%d units denied: %+v", n, d))
		}
		if d.Stage == limit.StageTable {
			f.tables++
		}
		most := max(f.exact[[2]int64{int64(client), first}], f.exact[[2]int64{int64(client), last}])
		if most+n <= r.config.Rate.N {
			f.faults = append(f.faults, fmt.Sprintf("P1: %d units of client %d denied by node %d, stage %v, in windows %d to %d with %d counted", n, client, node, d.Stage, first, last, most))
		}
	}
}

// check holds all windows against the bounds of P2.
func (f *windowFleet) check(t *testing.T, c limit.RuleConfig, theta float64) {
	t.Helper()
	for _, fault := range f.faults[:min(5, len(f.faults))] {
		t.Error(fault)
	}
	for w, n := range f.exact {
		if edge := f.exact[[2]int64{-w[0] - 1, w[1]}] + f.exact[[2]int64{-w[0] - 1, w[1] + 1}]; w[0] >= 0 && n > c.Rate.N+edge {
			t.Errorf("P2: the store admitted client %d %d units in window %d", w[0], n, w[1])
		}
	}
	for w, n := range f.unchecked {
		if bound := theta*float64(c.Rate.N) + 1; float64(n) > bound {
			t.Errorf("P2: node %d let %d units of client %d pass unchecked in window %d", w[1], n, w[0], w[2])
		}
	}
}

// Two and three nodes on one store: clients that send one request after the other,
// each at any node, steadily, in bursts and around the ends of the store's windows.
func TestWindowsOfNodes(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 3; nodes++ {
		for seed := range uint64(6) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(nodes)))
				c := windowRule("a", 3+rng.Uint64N(40), time.Duration(1+rng.IntN(5))*time.Second)
				c.OnFailure = limit.FailClosed
				f := newWindowFleet(t, rng, nodes, c)
				theta := *f.nodes[0].rules[0].config.EscalateAt
				f.drive(t, rng, c, f.ask)
				f.check(t, c, theta)
				if f.denials == 0 || f.tables == 0 {
					t.Errorf("%d denials, %d by tables: nothing was tested", f.denials, f.tables)
				}
			})
		}
	}
}

// drive has clients ask one request after the other, each at any node, when each node
// has heard of the store's clock.
func (f *windowFleet) drive(t *testing.T, rng *rand.Rand, c limit.RuleConfig, ask func(client, node int, n uint64)) {
	t.Helper()
	for _, node := range f.nodes {
		for r := node.rules[0]; r.Take(t.Context(), r.BytesKey([]byte{255}), 1).Stage != limit.StageExact; {
		}
	}
	var all sync.WaitGroup
	for client := range 8 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 2))
		all.Go(func() {
			for range int(1000 * *sandwichScale) {
				f.pause(rng, c)
				ask(client, rng.IntN(len(f.nodes)), 1+rng.Uint64N(1<<rng.UintN(3)))
			}
		})
	}
	all.Wait()
}

// pause waits before a client's next request.
func (f *windowFleet) pause(rng *rand.Rand, c limit.RuleConfig) {
	per := c.Rate.Per
	switch rng.IntN(60) {
	case 0: // to about the end of the store's window
		left := per - f.clock()%per
		time.Sleep(max(0, left+time.Duration(rng.Int64N(int64(8*time.Millisecond)))-4*time.Millisecond))
	case 1:
		time.Sleep(time.Duration(rng.Int64N(int64(2 * per))))
	case 2:
		time.Sleep(per / time.Duration(c.Rate.N))
	default:
		time.Sleep(time.Duration(rng.Int64N(int64(time.Millisecond))))
	}
}
