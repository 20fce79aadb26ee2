package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// changing is a limiter whose rule "a" gets other limits, sizes and neighbours, with two
// oracles for each client: conforms has all that it was admitted, cut to a full bucket by each
// change, and explains denials (P1); carried begins with what its exact bucket held at the last
// change, and bounds what is admitted from then on (P2); see decision 33.
type changing struct {
	lim, before *Limiter
	rng         *rand.Rand
	geo         geometry
	digests     []sketch.Digest
	conforms    []*judge.Client
	carried     []*judge.Client
	came        []float64 // what carried began with, in units: windows may hold more than the new limit
	late        []int64   // units admitted by the limiter before since the change: C
	now         time.Duration
	evictions   bool // P2 is not promised
}

func newChanging(t *testing.T, rng *rand.Rand, clients int, g geometry, c limit.RuleConfig) *changing {
	t.Helper()
	w := &changing{rng: rng, geo: g, now: time.Duration(rng.IntN(1000)) * time.Microsecond}
	w.lim = w.make(t, nil, c)
	for i := range clients {
		w.digests = append(w.digests, g.hash(rng, i))
		w.conforms = append(w.conforms, judge.Of(w.rule().config))
		w.carried = append(w.carried, judge.Of(w.rule().config))
		w.late, w.came = append(w.late, 0), append(w.came, 0)
	}
	return w
}

func (w *changing) rule() *Rule { return w.lim.byName["a"] }

func (w *changing) make(t *testing.T, old *Limiter, a limit.RuleConfig) *Limiter {
	t.Helper()
	c := Config{Rules: []limit.RuleConfig{a}, TopTalkers: 8, Secret: sketch.Secret{1}}
	if w.rng.IntN(2) == 0 {
		c.Rules = append(c.Rules, rule("b", 1+w.rng.Uint64N(50), time.Second, 20))
	}
	if w.rng.IntN(4) == 0 {
		c.Rules = append([]limit.RuleConfig{rule("slow", 1, time.Duration(1+w.rng.IntN(20))*time.Second, 20)}, c.Rules...)
	}
	if c.Clock = new(ManualClock); old != nil {
		c.Clock = old.manual
	}
	plan, err := c.Plan()
	if err != nil {
		t.Fatal(err)
	}
	plan.FilterWords = w.geo.words
	for i := range plan.Rules {
		plan.Rules[i].Blocks, plan.Rules[i].Sets = w.geo.blocks, w.geo.sets
		if w.rng.IntN(2) == 0 {
			plan.Rules[i].Blocks += w.rng.IntN(2 * w.geo.blocks)
			plan.Rules[i].Sets += w.rng.IntN(2 * w.geo.sets)
		}
	}
	lim, err := newLimiter(plan, &c, old)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// change has the rule get another limit.
func (w *changing) change(t *testing.T, c limit.RuleConfig) {
	t.Helper()
	w.now = w.now.Truncate(time.Microsecond) + time.Microsecond // both sides of a change leak whole µs
	setTime(w.lim, w.now)
	was := w.rule()
	held := make([]func(*judge.Client), len(w.digests))
	for i, d := range w.digests {
		held[i] = was.heldBy(d, w.now)
	}
	w.before, w.lim = w.lim, w.make(t, w.lim, c)
	r := w.rule()
	auditAll(w.lim)
	silent(t, w.lim)
	if !r.Continues(was) {
		t.Fatal("the rule begins anew")
	}
	for i := range w.digests {
		for _, o := range []**judge.Client{&w.conforms[i], &w.carried[i]} {
			(*o).At(w.now)
			next := judge.Of(r.config)
			next.Last, next.Previous, next.Current, next.Times = (*o).Last, (*o).Previous, (*o).Current, (*o).Times
			if next.Level = (*o).Level; next.Window == 0 {
				units := float64((*o).Level) / float64((*o).Per*max(1, (*o).Scale))
				next.Level = min(next.Units(units)+1, next.Units(float64(r.config.Burst)))
			}
			*o = next
		}
		held[i](w.carried[i])
		w.came[i] = float64(w.carried[i].Level) / float64(w.carried[i].Per*max(1, w.carried[i].Scale))
		w.late[i] = 0
	}
}

// heldBy returns what cuts an oracle to what the exact bucket of d holds.
func (r *Rule) heldBy(d sketch.Digest, now time.Duration) func(*judge.Client) {
	tat, ticks := r.buckets.Table.Lookup(d), r.buckets.Ticks(now)
	units := float64(r.buckets.Shape.Level(tat, ticks)) / float64(r.buckets.Shape.Unit())
	switch {
	case r.buckets.Logged:
		free, _, _ := r.buckets.Table.Log(d, ticks, 0)
		return func(o *judge.Client) {
			o.Times = slices.Clone(o.Times[:min(len(o.Times), int(r.buckets.Shape.Limit()-free))])
			o.Level = int64(len(o.Times))
		}
	case r.buckets.Shape.Algorithm() == limit.SlidingWindow:
		_, counts := r.buckets.Shape.Counts(tat, ticks)
		return func(o *judge.Client) {
			o.Previous, o.Current = int64(counts>>26), int64(counts&(1<<26-1))
			o.At(time.Duration(o.Last))
		}
	}
	return func(o *judge.Client) { o.Level = min(o.Level, o.Units(units)) }
}

// request makes a client send n units, to the limiter before the change if inFlight.
func (w *changing) request(client int, n uint64, inFlight bool) error {
	lim := w.lim
	if inFlight {
		lim = w.before
	}
	r := lim.byName["a"]
	w.conforms[client].At(w.now)
	w.carried[client].At(w.now)
	d := r.take(context.Background(), rawKey(r, w.digests[client]), n, setTime(lim, w.now), stackStripe())
	o := w.conforms[client]
	switch cfg := w.rule().config; {
	case !d.Allowed && !inFlight && !o.Justified(n, cfg.Burst):
		return fmt.Errorf("P1: client %d, %v burst %d: %d units denied at %v, %v, at level %v", client, cfg.Rate, cfg.Burst, n, w.now, d.Stage, float64(o.Level)/float64(o.Per*max(1, o.Scale)))
	case !d.Allowed:
		return nil
	}
	o.Admit(n)
	if inFlight {
		w.late[client] += int64(n)
	}
	return w.bounded(client, n)
}

// bounded checks P2 after n more units.
func (w *changing) bounded(client int, n uint64) error {
	o, cfg := w.carried[client], w.rule().config
	level := o.Admit(n)
	bound := (1 + *cfg.EscalateAt) * float64(cfg.Burst)
	if periodic(cfg) {
		bound = max(bound, w.came[client])
	}
	bound += 1 + float64(w.late[client])
	grace := o.Units(2e-6*cfg.Rate.PerSecond()) + 2 // of the clock
	if over := level - o.Units(bound) - grace; over > 0 && !w.evictions {
		return fmt.Errorf("P2: client %d, %v burst %d θ %v: level %v after %d units at %v, bound %v", client, cfg.Rate, cfg.Burst, *cfg.EscalateAt, float64(level)/float64(o.Per*max(1, o.Scale)), n, w.now, bound)
	}
	return nil
}

// limits are changes of a rule that keep its state.
func limits(rng *rand.Rand, c limit.RuleConfig) limit.RuleConfig {
	theta := []float64{0, 0.1, 0.5, 0.5, 0.9}[rng.IntN(5)]
	c.EscalateAt, c.Strict = &theta, rng.IntN(6) == 0
	if c.Strict {
		c.EscalateAt = nil
	}
	if periodic(c) {
		c.Rate.N = []uint64{3, 15, 20, 20, 60, 200}[rng.IntN(6)]
		c.Burst = 0
		return c
	}
	c.Rate = []limit.Rate{{N: 10, Per: time.Second}, {N: 10, Per: time.Second}, {N: 100, Per: time.Second}, {N: 3, Per: time.Second}, {N: 7, Per: time.Minute}, {N: 333, Per: time.Second}, {N: 70000, Per: time.Second}, {N: 1, Per: 24 * time.Hour}}[rng.IntN(8)]
	c.Burst = []uint64{1, 3, 12, 20, 20, 50, 200}[rng.IntN(7)]
	return c
}

// TestSandwichAcrossLimits makes a million decisions while rates, bursts, θ, strictness, sizes
// and neighbours change every few hundred, and time jumps.
func TestSandwichAcrossLimits(t *testing.T) {
	t.Parallel()
	const clients = 12
	wide := geometry{blocks: 64, sets: 1 << 9, words: 1 << 10, hash: randomHash}
	addrs := geometry{blocks: 64, sets: 1 << 9, words: 1 << 10, hash: addressHash}
	same := geometry{blocks: 4, sets: 1 << 9, words: 16, hash: degenerateHash}
	total := 0
	for i, tc := range []struct {
		name  string
		c     limit.RuleConfig
		geo   geometry
		steps int
	}{
		{"buckets", rule("a", 10, time.Second, 20), wide, 400_000},
		{"addresses", rule("a", 10, time.Second, 20), addrs, 150_000},
		{"degenerate hash", rule("a", 10, time.Second, 20), same, 150_000},
		{"windows", windowRule("a", 20, time.Second), wide, 100_000},
		{"sliding windows", slidingRule("a", 20, time.Second), wide, 100_000},
		{"logs", logRule("a", 20, time.Second), wide, 100_000},
	} {
		if raceEnabled {
			tc.steps /= 20
		}
		total += tc.steps
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for done := 0; done < tc.steps; {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(done)))
				w := newChanging(t, rng, clients, tc.geo, limits(rng, tc.c))
				for range 20 {
					done += w.phase(t)
					w.change(t, limits(rng, tc.c))
				}
			}
		})
	}
	if total < 1_000_000 && !raceEnabled {
		t.Errorf("%d decisions, want a million", total)
	}
}

// phase sends some hundred requests: bursts, steady traffic near the rate, and pauses.
func (w *changing) phase(t *testing.T) (done int) {
	t.Helper()
	cfg := w.rule().config
	period := time.Duration(float64(time.Second) / cfg.Rate.PerSecond())
	at := w.rng.IntN(len(w.digests))
	for i := range 200 + w.rng.IntN(400) {
		switch w.rng.IntN(40) {
		case 0:
			at = w.rng.IntN(len(w.digests))
		case 1:
			w.now += time.Duration(w.rng.Int64N(int64(period) * int64(2*cfg.Burst)))
		case 2:
			advanceAt(w.lim, w.now)
		default:
			w.now += time.Duration(w.rng.Int64N(int64(period)*[]int64{1, 2, 3}[w.rng.IntN(3)]/2 + 1))
		}
		n := uint64(1)
		if w.rng.IntN(5) == 0 {
			n += w.rng.Uint64N(min(5, cfg.Burst))
		}
		client := at
		if w.rng.IntN(3) == 0 {
			client = w.rng.IntN(len(w.digests))
		}
		done++
		if err := w.request(client, n, w.before != nil && i < 20 && w.rng.IntN(3) == 0); err != nil {
			t.Fatal(err)
		}
	}
	return done
}

// A client with a full bucket that keeps the rate after a change, until the bucket alone has
// drained, and then sends all at once: without what the sketch knew it would pass unchecked
// meanwhile, and get a burst more than P2 says.
func TestSketchAcrossLimits(t *testing.T) {
	t.Parallel()
	theta := 0.5
	for name, was := range map[string]limit.RuleConfig{
		"another rate":  rule("a", 10, time.Second, 40),
		"another burst": rule("a", 5, time.Second, 60),
		"no sketch":     withStrict(rule("a", 10, time.Second, 40)),
		"strict":        withStrict(rule("a", 5, time.Second, 40)), // the table is the same
	} {
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, 5))
			w := newChanging(t, rng, 2, geometry{blocks: 64, sets: 64, words: 64, hash: randomHash}, was)
			for range 100 { // from the second half of the burst on by its exact bucket
				w.now += time.Millisecond
				w.request(0, 1, false)
			}
			is := rule("a", 5, time.Second, 40)
			is.EscalateAt = &theta
			w.change(t, is)
			for range 60 {
				w.now += 200 * time.Millisecond
				if err := w.request(0, 1, false); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			for range 100 {
				if err := w.request(0, 1, false); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
}
