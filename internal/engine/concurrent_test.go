package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
)

const goroutines = 64

// timeline is a clock that all goroutines of a test share: every reading is later
// than all before it.
type timeline struct {
	ns atomic.Int64
	// decisions is held for reading during each, and for writing by a jump of
	// the clock: one that spans a jump of more than the filter's window would
	// be as late as none is in a process that runs, and P2 allows it one unit.
	decisions sync.RWMutex
}

// jump moves the clock while no decision is under way.
func (l *timeline) jump(gap time.Duration) {
	l.decisions.Lock()
	l.ns.Add(int64(gap))
	l.decisions.Unlock()
}

func (l *timeline) next(gap time.Duration) time.Duration { return time.Duration(l.ns.Add(int64(gap))) }

// TestSandwichConcurrent has 64 clients that each send from a goroutine of
// their own through structures in which everything collides. What each sees
// must keep both promises without an allowance: a client that waits for its
// answers has one decision in flight.
func TestSandwichConcurrent(t *testing.T) {
	t.Parallel()
	for _, rules := range [][]limit.RuleConfig{
		{rule("a", 1000, time.Second, 40), rule("b", 7, time.Second, 20), rule("c", 100, time.Second, 5)},
		{
			withBan(rule("bans", 1000, time.Second, 40), limit.BanPolicy{After: 3, For: time.Second, Max: 3 * time.Second}), rule("b", 7, time.Second, 20),
			withBan(rule("c", 100, time.Second, 5), limit.BanPolicy{After: 1, For: time.Second}),
		},
		{windowRule("a", 40, time.Second), windowRule("b", 300, 7*time.Second), windowRule("c", 5, time.Second)},
		{slidingRule("a", 40, time.Second), slidingRule("b", 300, 7*time.Second), slidingRule("c", 5, time.Second)},
		{logRule("a", 40, time.Second), logRule("b", 300, 7*time.Second), logRule("c", 5, time.Second)},
	} {
		t.Run(rules[0].Name+", "+rules[0].Algorithm.String(), func(t *testing.T) {
			t.Parallel()
			sandwichConcurrently(t, rules)
		})
	}
}

func sandwichConcurrently(t *testing.T, rules []limit.RuleConfig) {
	t.Helper()
	const each = 20_000
	geo := geometry{blocks: 2, sets: 1 << 12, words: 8, hash: randomHash}
	rng := rand.New(rand.NewPCG(7, 7))
	w := newWorld(t, rng, goroutines, geo, rules...)
	auditAll(w.lim)
	var clock timeline
	var wg sync.WaitGroup
	for c := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 1))
			if err := w.alone(c, each, rng, &clock); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	silent(t, w.lim)
	for i, r := range w.lim.rules {
		if r.buckets.Table.Evictions() > 0 {
			t.Errorf("rule %d: evictions: P2 was not tested", i)
		}
	}
}

// alone sends the requests of client c one after the other.
func (w *world) alone(c, requests int, rng *rand.Rand, clock *timeline) error {
	for range requests {
		if rng.IntN(1000) == 0 {
			clock.jump(time.Duration(rng.Int64N(int64(3 * time.Second))))
		}
		if err := w.one(c, rng, clock); err != nil {
			return err
		}
	}
	return nil
}

// one sends one request of client c.
func (w *world) one(c int, rng *rand.Rand, clock *timeline) error {
	clock.decisions.RLock()
	defer clock.decisions.RUnlock()
	now := clock.next(time.Duration(rng.Int64N(int64(20 * time.Microsecond))))
	rule, n := rng.IntN(3), uint64(1)
	if rng.IntN(8) == 0 {
		n += rng.Uint64N(4)
	}
	r := w.lim.rules[rule]
	// A time that is at once used needs no settling, which would see the
	// test's jumps ahead by other goroutines as steps back.
	o := w.truth[c][rule]
	o.At(now)
	d := r.take(context.Background(), rawKey(r, w.digests[c][rule]), n, now, stackStripe())
	if done, err := w.judgeBans(c, n, now, []int{rule}, d, 0); done || err != nil {
		return err
	}
	if !d.Allowed {
		return w.denied(c, n, now, rule)
	}
	return w.admitted(c, n, now, rule)
}

// TestOneClientManyGoroutines floods one client from 64 goroutines: what is
// admitted in all, in the order of the readings, must conform to the bound of
// P2 with C = 64.
func TestOneClientManyGoroutines(t *testing.T) {
	t.Parallel()
	for _, c := range []limit.RuleConfig{rule("a", 1000, time.Second, 50), windowRule("a", 1000, time.Second), slidingRule("a", 1000, time.Second), logRule("a", 1000, time.Second)} {
		t.Run(c.Algorithm.String(), func(t *testing.T) {
			t.Parallel()
			oneClientManyGoroutines(t, c)
		})
	}
}

func oneClientManyGoroutines(t *testing.T, c limit.RuleConfig) {
	t.Helper()
	geo := geometry{blocks: 2, sets: 16, words: 8, hash: randomHash}
	w := newWorld(t, rand.New(rand.NewPCG(9, 9)), 1, geo, c)
	r, d := w.lim.rules[0], w.digests[0][0]
	var clock timeline
	var wg sync.WaitGroup
	admitted := make([][]time.Duration, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for range 20_000 {
				now := clock.next(10 * time.Microsecond)
				if r.take(context.Background(), rawKey(r, d), 1, now, stackStripe()).Allowed {
					admitted[g] = append(admitted[g], now)
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(admitted...)
	slices.Sort(all)
	o := judge.Of(r.config)
	bound := o.Units(1.5*float64(r.config.Burst) + 1 + goroutines)
	for _, now := range all {
		o.At(now)
		if level := o.Admit(1); level > bound {
			t.Fatalf("level %d at %v, bound %d", level, now, bound)
		}
	}
	// 12.8 s at 1000/s, and the burst: the flood gets its rate, not less.
	if len(all) < 12_800 {
		t.Errorf("%d admitted, want the rate", len(all))
	}
}

// TestFirstSeenOnce lets 64 goroutines send the first request of a client at
// the same time, many times over: one of them passes as first seen.
func TestFirstSeenOnce(t *testing.T) {
	t.Parallel()
	lim, err := New(Config{Rules: []limit.RuleConfig{rule("a", 1, time.Second, 20)}})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	for client := range uint64(200) {
		key := r.BytesKey([]byte{byte(client), byte(client >> 8)})
		var wg sync.WaitGroup
		var first atomic.Int64
		for range goroutines {
			wg.Go(func() {
				if r.Take(t.Context(), key, 1).Stage == limit.StageFilter {
					first.Add(1)
				}
			})
		}
		wg.Wait()
		if first.Load() != 1 {
			t.Fatalf("client %d: %d requests passed as first seen, want 1", client, first.Load())
		}
	}
}
