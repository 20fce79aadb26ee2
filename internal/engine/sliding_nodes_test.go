package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// slidingFleet is nodes with one rule that slides in one store, and an oracle that
// knows of each unit between which times of the store's clock it was charged.
type slidingFleet struct {
	*windowFleet

	per  time.Duration
	most uint64

	charged map[int][]slidingCharge // by client; guarded by mu
	passed  map[[3]int64]uint64     // client, node, aligned period of its sketch; guarded by mu
}

type slidingCharge struct {
	from, to time.Duration
	units    uint64
}

// level is that of a client at a time: of a log the units of the period ending then, of
// a sliding window both counts, weighted. Of a charge whose time is not known exactly
// the earliest counts or, with late, the latest.
func (f *slidingFleet) level(client int, at time.Duration, logged, late bool) (level uint64) {
	var previous, current uint64
	for _, c := range f.charged[client] {
		when := c.from
		if late {
			when = c.to
		}
		switch {
		case logged && when+f.per > at:
			level += c.units
		case logged:
		case when/f.per >= at/f.per:
			current += c.units
		case when/f.per+1 == at/f.per:
			previous += c.units
		}
	}
	if logged {
		return level
	}
	step := f.per / 62_500
	rest := 62_500 - uint64(at%f.per/step)
	return current + (previous*rest+62_499)/62_500
}

// ask sends one request and checks the verdict.
func (f *slidingFleet) ask(client, node int, n uint64) {
	r := f.nodes[node].rules[0]
	logged := r.buckets.Logged
	key := r.BytesKey([]byte{byte(client)})
	local := int64(r.buckets.SketchTicks(r.buckets.Clock.Now()) >> 32)
	from := f.clock()
	d := r.Take(context.Background(), key, n)
	to := f.clock()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case d.Allowed && (d.Stage == limit.StageFilter || d.Stage == limit.StageSketch):
		f.passed[[3]int64{int64(client), int64(node), local}] += n
	case d.Allowed:
		kept := f.charged[client][:0]
		for _, c := range f.charged[client] {
			if c.to+3*f.per > from {
				kept = append(kept, c)
			}
		}
		f.charged[client] = append(kept, slidingCharge{from, to, n})
		if level := f.level(client, to, logged, false); level > f.most {
			f.faults = append(f.faults, fmt.Sprintf("P2: level %d of client %d with %d units more by node %d", level, client, n, node))
		}
	default:
		f.denials++
		if d.Stage == limit.StageTable {
			f.tables++
		}
		if d.Remaining >= int64(n) || d.RetryAfter <= 0 {
			f.faults = append(f.faults, fmt.Sprintf("%d units denied: %+v", n, d))
		}
		// The clock is read in whole µs.
		if level := f.level(client, from-time.Microsecond, logged, true); level+n <= f.most {
			f.faults = append(f.faults, fmt.Sprintf("P1: %d units of client %d denied by node %d, stage %v, at level %d", n, client, node, d.Stage, level))
		}
	}
}

// TestSlidingNodes is the sandwich of one to three nodes on one store, for windows that
// slide and logs: what the store admits keeps to the limit, each denial is explained by
// it, and what passes unchecked at a node keeps to its share.
func TestSlidingNodes(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []limit.Algorithm{limit.SlidingWindow, limit.SlidingLog} {
		for nodes := 1; nodes <= 3; nodes++ {
			for seed := range uint64(4) {
				t.Run(fmt.Sprintf("%v, %d nodes, %d", algorithm, nodes, seed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { slidingNodes(t, algorithm, nodes, seed) })
				})
			}
		}
	}
}

func slidingNodes(t *testing.T, algorithm limit.Algorithm, nodes int, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, uint64(nodes)))
	c := withAlgorithm(windowRule("a", 3+rng.Uint64N(40), time.Duration(1+rng.IntN(5))*time.Second), algorithm)
	c.OnFailure = limit.FailClosed
	f := &slidingFleet{windowFleet: newWindowFleet(t, rng, nodes, c), per: c.Rate.Per, most: c.Rate.N, charged: map[int][]slidingCharge{}, passed: map[[3]int64]uint64{}}
	theta := *f.nodes[0].rules[0].config.EscalateAt
	f.drive(t, rng, c, f.ask)
	for _, fault := range f.faults[:min(5, len(f.faults))] {
		t.Error(fault)
	}
	for w, n := range f.passed {
		if bound := theta*float64(c.Rate.N)/2 + 1; float64(n) > bound {
			t.Errorf("P2: node %d let %d units of client %d pass unchecked in period %d", w[1], n, w[0], w[2])
		}
	}
	if f.denials == 0 || f.tables == 0 {
		t.Errorf("%d denials, %d by tables: nothing was tested", f.denials, f.tables)
	}
}

// A node that asks a store reports what the store has lost, so that other nodes enforce it too.
func TestSlidingFloors(t *testing.T) {
	t.Parallel()
	for _, c := range []limit.RuleConfig{slidingRule("a", 10, time.Minute), logRule("a", 10, time.Minute)} {
		t.Run(c.Algorithm.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(memstore.Config{})
				defer store.Close(t.Context())
				first, second := sharedLimiter(t, store, withStrict(c)).rules[0], sharedLimiter(t, store, withStrict(c)).rules[0]
				key := first.BytesKey([]byte("x"))
				take := func(r *Rule, n uint64) bool { return r.Take(t.Context(), r.BytesKey([]byte("x")), n).Allowed }
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
				if !take(first, 8) {
					t.Error("8 of 10 denied")
				}
				store.Forget()
				if !take(first, 1) || !take(first, 1) { // the first answer shows that it has forgotten
					t.Error("10 of 10 denied")
				}
				if take(second, 1) {
					t.Error("an eleventh unit by another node")
				}
				time.Sleep(time.Minute)
				if d := first.Take(t.Context(), key, 1); c.Algorithm == limit.SlidingLog != d.Allowed {
					t.Errorf("a minute later: %+v", d)
				}
			})
		})
	}
}
