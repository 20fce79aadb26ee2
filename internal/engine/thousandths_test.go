package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

func inThousandths(c limit.RuleConfig) limit.RuleConfig { c.Thousandths = true; return c }

// The sandwich with costs in thousandths: the oracle is exact, and every denial (P1) and
// every admission (P2, whose 1 is one unit) is held against it.
func TestSandwichOfThousandths(t *testing.T) {
	t.Parallel()
	geometries := []geometry{
		{blocks: 1 << 10, sets: 1 << 12, words: 1 << 12, hash: randomHash},
		{blocks: 4, sets: 1 << 12, words: 16, hash: degenerateHash},
	}
	for _, c := range []limit.RuleConfig{
		rule("a", 10, time.Second, 20), withTheta(rule("a", 9, time.Minute, 30), 0.1), withTheta(rule("a", 333, time.Second, 50), 0.9), rule("a", 2, time.Second, 3),
		withStrict(rule("a", 7, time.Second, 13)), withAlgorithm(rule("a", 3, time.Second, 15), limit.TokenBucket), rule("a", 1, 24*time.Hour, 12), rule("a", 2000, time.Second, 11),
	} {
		for i, g := range geometries {
			rng := rand.New(rand.NewPCG(uint64(i), 23))
			w := newWorld(t, rng, 12, g, inThousandths(c))
			unit := time.Duration(float64(c.Rate.Per) / float64(c.Rate.N))
			now, sent := time.Duration(0), 60_000
			if raceEnabled {
				sent /= 10
			}
			for range sent {
				switch rng.IntN(8) {
				case 0:
					now += unit * time.Duration(rng.IntN(3*int(c.Burst)))
				case 1, 2, 3:
					now += time.Duration(rng.Int64N(int64(unit)))
				}
				costs := [...]uint64{1, 333, 500, 999, 1000, 1001, 1 + rng.Uint64N(1000*c.Burst), 1000*c.Burst + 1}
				if err := w.request(rng.IntN(len(w.digests)), costs[rng.IntN(len(costs))], now, []int{0}); err != nil {
					t.Fatalf("%v, θ %v: %v", c.Rate, c.EscalateAt, err)
				}
				if rng.IntN(1000) == 0 {
					advanceAt(w.lim, now)
				}
			}
		}
	}
}

// The filter admits no more than the unit that P2 allows it.
func TestFilterAdmitsOneUnit(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, inThousandths(withTheta(rule("a", 1, time.Second, 20), 0)))
	r := lim.rules[0]
	for cost, want := range map[uint64]limit.Stage{1: limit.StageFilter, 500: limit.StageFilter, 1000: limit.StageFilter, 1001: limit.StageExact} {
		key := r.BytesKey([]byte{byte(cost >> 8), byte(cost)})
		if p := r.Peek(key, cost).Stage; p != want {
			t.Errorf("%d thousandths are peeked at by %v, want %v", cost, p, want)
		}
		if d := r.Take(t.Context(), key, cost); d.Stage != want || !d.Allowed {
			t.Errorf("%d thousandths: %+v, want stage %v", cost, d, want)
		}
	}
}

// Everything that is returned is in units, except costs.
func TestThousandths(t *testing.T) {
	t.Parallel()
	c := inThousandths(withStrict(rule("a", 1, time.Second, 3)))
	c.Cost = 500
	lim := mustNew(t, c)
	r, ctx := lim.rules[0], t.Context()
	key := r.BytesKey([]byte("a"))
	if r.CostScale() != 1000 || r.MaxCost() != 3000 || r.config.Burst != 3 || r.plan().MaxBurst() != 3 {
		t.Errorf("scale %d, at most %d, burst %d, %d at once", r.CostScale(), r.MaxCost(), r.config.Burst, r.plan().MaxBurst())
	}
	for i, left := range []int64{2, 2, 1, 1, 0, 0} {
		if d := r.Take(ctx, key, 500); !d.Allowed || d.Remaining != left {
			t.Errorf("request %d: %+v, want %d left", i, d, left)
		}
	}
	if d := r.Take(ctx, key, 500); d.Allowed || d.RetryAfter != 500*time.Millisecond || d.Remaining != 0 || d.TimeToEmpty != 3*time.Second {
		t.Errorf("the seventh: %+v", d)
	}
	if r.Refund(key, 700); r.Peek(key, 701).Allowed || !r.Peek(key, 700).Allowed {
		t.Error("not 700 thousandths were given back")
	}
	if d, n := r.TakeUpTo(ctx, key, 5000); n != 700 || !d.Allowed || d.Remaining != 0 {
		t.Errorf("%d taken, %+v", n, d)
	}
	if d, n := r.TakeUpTo(ctx, key, 1); n != 0 || d.Allowed || d.RetryAfter != time.Millisecond {
		t.Errorf("%d taken of a full bucket, %+v", n, d)
	}
	if c := r.Config(); c.FormatCost(500) != "0.5" || c.FormatCost(1005) != "1.005" || c.FormatCost(2000) != "2" {
		t.Errorf("%s %s %s", c.FormatCost(500), c.FormatCost(1005), c.FormatCost(2000))
	}
	c.Cost = 0
	if lim := mustNew(t, c); lim.rules[0].cost != 1000 {
		t.Errorf("the default cost is %d", lim.rules[0].cost)
	}
}

// Top talkers are weighted by what clients ask for in thousandths, admitted or denied: one that sends many
// small requests does not rank above one that sends a few large ones.
func TestTalkersOfThousandths(t *testing.T) {
	t.Parallel()
	lim, err := New(Config{Rules: []limit.RuleConfig{inThousandths(withStrict(rule("a", 1000, time.Second, 2000)))}, TopTalkers: 64, Clock: new(ManualClock)})
	if err != nil {
		t.Fatal(err)
	}
	r := lim.rules[0]
	for name, cost := range map[string]uint64{"few": 2500, "many": 300} {
		for range map[string]int{"few": 4, "many": 10}[name] {
			if d := r.Take(t.Context(), r.BytesKey([]byte(name)), cost); !d.Allowed {
				t.Fatalf("%s: %+v", name, d)
			}
		}
	}
	weight := map[string]uint64{}
	for i := range r.talkers.Slots() {
		var s sketch.Slot
		if r.talkers.Read(i, &s); s.Weight > 0 {
			weight[r.nameText(s.Name[:s.NameLen])] = s.Weight
		}
	}
	if len(weight) != 2 || weight["few"] != 10_000 || weight["many"] != 3_000 {
		t.Errorf("%v, want 10000 and 3000 thousandths", weight)
	}
}
