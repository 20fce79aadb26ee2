package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/limit"
)

// collectMiddle drops a limiter and waits until it is collected.
func collectMiddle(t *testing.T, l **Limiter) {
	t.Helper()
	w, rule := weak.Make(*l), weak.Make((*l).rules[0])
	*l = nil
	testkit.Eventually(t, "a limiter that nobody uses is let go", func() bool {
		runtime.GC()
		return w.Value() == nil && rule.Value() == nil
	})
}

// chainOf makes limiters, each the successor of the previous one.
func chainOf(t *testing.T, rules ...limit.RuleConfig) (all []*Limiter) {
	t.Helper()
	l, err := New(Config{Rules: rules[:1], Clock: new(ManualClock), Memory: limit.MinMemory})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, l)
	for _, c := range rules[1:] {
		all = append(all, mustWith(t, all[len(all)-1], Config{Rules: []limit.RuleConfig{c}, Memory: limit.MinMemory}))
	}
	return all
}

// What the first of three admits after both changes counts in the last one, the one between
// collected or not.
func TestChainPastCollected(t *testing.T) {
	t.Parallel()
	for _, collected := range []bool{false, true} {
		all := chainOf(t, strictRule("a", 1, time.Minute, 20), strictRule("a", 1, time.Minute, 21), strictRule("a", 1, time.Minute, 22))
		if collected {
			collectMiddle(t, &all[1])
		}
		r, key := all[0].rules[0], all[0].rules[0].BytesKey([]byte("x"))
		for range 15 {
			r.Take(t.Context(), key, 1)
		}
		more := 0
		for all[2].rules[0].Take(t.Context(), key, 1).Allowed {
			more++
		}
		if more != 22-15 {
			t.Errorf("collected %v: the last admitted %d more, want 7", collected, more)
		}
		r.Refund(key, 3)
		if d := all[2].rules[0].Peek(key, 3); !d.Allowed {
			t.Errorf("collected %v: a refund did not come to the last: %+v", collected, d)
		}
		if r.Reset(key); !all[2].rules[0].Peek(key, 22).Allowed {
			t.Errorf("collected %v: a reset did not come to the last", collected)
		}
		runtime.KeepAlive(all)
	}
}

// What is given back to the first comes off what the change after it had no room for, also past a
// limiter that was collected, whose units have another length.
func TestRefundPastCollected(t *testing.T) {
	t.Parallel()
	all := chainOf(t, strictRule("a", 1, time.Minute, 100))
	old := all[0].rules[0]
	key := old.BytesKey([]byte("x"))
	old.Take(t.Context(), key, 100)
	for _, c := range []limit.RuleConfig{strictRule("a", 1, time.Second, 10), strictRule("a", 1, time.Hour, 30)} {
		all = append(all, mustWith(t, all[len(all)-1], Config{Rules: []limit.RuleConfig{c}, Memory: limit.MinMemory}))
	}
	collectMiddle(t, &all[1])
	for _, tt := range []struct {
		back uint64
		left int64 // of 30
	}{
		{50, 20}, // of the 90 that had no room
		{43, 23}, // of the 40 that are left of those, and 3
		{7, 30},
	} {
		old.Refund(key, tt.back)
		if d := all[2].rules[0].Peek(key, 1); d.Remaining != tt.left {
			t.Errorf("after %d units more: %+v, want %d left", tt.back, d, tt.left)
		}
	}
	runtime.KeepAlive(all)
}

// The sketch of the last knows what the first screens.
func TestChainTellsSketchPastCollected(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]limit.RuleConfig{
		"others": {rule("a", 1, time.Minute, 20), rule("a", 1, time.Hour, 20), rule("a", 2, time.Hour, 20)},
		"same":   {rule("a", 1, time.Minute, 20), rule("a", 1, time.Minute, 20), rule("a", 2, time.Hour, 20)},
	} {
		all := chainOf(t, rules...)
		collectMiddle(t, &all[1])
		old, now := all[0].rules[0], all[2].rules[0]
		key := old.BytesKey([]byte("x"))
		old.Take(t.Context(), key, 1) // the filter knows it then
		before := now.sketch.Level(key.digest(), 0)
		old.Take(t.Context(), key, 3)
		if got := now.sketch.Level(key.digest(), 0) - before; got < now.buckets.Shape.Cost(3) {
			t.Errorf("%s: the last sketch was charged %d ticks, want 3 units", name, got)
		}
		runtime.KeepAlive(all)
	}
}

// A ban that begins in the first is one in the last, as if it had begun before the changes: no
// longer than any max on the way, and not past one that would have ended it.
func TestChainOfBans(t *testing.T) {
	t.Parallel()
	banned := func(max time.Duration, m limit.Mode) limit.RuleConfig {
		c := strictRule("a", 1, time.Minute, 1)
		c.Mode, c.Ban = m, limit.BanPolicy{After: 3, For: 10 * time.Minute, Max: max}
		return c
	}
	const hour = time.Hour
	without := strictRule("a", 1, time.Minute, 1)
	for name, tt := range map[string]struct {
		rules []limit.RuleConfig
		want  []time.Duration
	}{
		"lower":  {[]limit.RuleConfig{banned(hour, limit.Enforce), banned(hour/2, limit.Enforce), banned(20*time.Minute, limit.Enforce)}, []time.Duration{10 * time.Minute, 10 * time.Minute, 10 * time.Minute}},
		"five":   {[]limit.RuleConfig{banned(50*time.Minute, limit.Enforce), banned(40*time.Minute, limit.Enforce), banned(11*time.Minute, limit.Enforce), banned(hour, limit.Enforce), banned(50*time.Minute, limit.Enforce)}, []time.Duration{10 * time.Minute, 10 * time.Minute, 10 * time.Minute, 10 * time.Minute, 10 * time.Minute}},
		"shadow": {[]limit.RuleConfig{banned(hour, limit.Enforce), banned(hour/2, limit.Shadow), banned(20*time.Minute, limit.Enforce)}, []time.Duration{10 * time.Minute, 10 * time.Minute, 0}},
		"none":   {[]limit.RuleConfig{banned(hour, limit.Enforce), without, banned(20*time.Minute, limit.Enforce)}, []time.Duration{10 * time.Minute, 0, 0}},
	} {
		for gone := range 1 << (len(tt.rules) - 2) { // which of those between are collected
			all := chainOf(t, tt.rules...)
			for i := range len(tt.rules) - 2 {
				if gone>>i&1 == 1 {
					collectMiddle(t, &all[1+i])
				}
			}
			key := all[0].rules[0].BytesKey([]byte("x"))
			for range 4 {
				all[0].rules[0].Take(t.Context(), key, 1)
			}
			for i, l := range all {
				if l == nil {
					continue
				}
				if left, _ := l.rules[0].Banned(key); left != tt.want[i] {
					t.Errorf("%s, gone %b: by the limiter %d banned for %v, want %v", name, gone, i, left, tt.want[i])
				}
			}
			runtime.KeepAlive(all)
		}
	}
}

// TestRandomChains drives chains of up to five limiters, some of them collected in between, against
// an oracle that never forgets one: each limiter decides by what it has been charged with and
// what those before it have been since it goes on with them. All levels are whole units, so
// the oracle is exact: nobody is denied too early, and nobody admitted too late.
func TestRandomChains(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []limit.Algorithm{limit.LeakyBucket, limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			decisions, collected, past := 0, 0, 0
			for seed := range testkit.Size[uint64](60, 1000) {
				c := &chained{rng: rand.New(rand.NewPCG(seed, 30)), algorithm: algorithm}
				c.add(t, c.limit())
				for range 120 {
					switch k := c.rng.IntN(24); {
					case k == 0 && len(c.all) < 5:
						c.add(t, c.limit())
					case k == 1 && len(c.all) > 2: // neither the first nor the last
						if i := 1 + c.rng.IntN(len(c.all)-2); c.all[i].lim != nil {
							collectMiddle(t, &c.all[i].lim)
							collected++
						}
					case k == 2: // made, and dropped
						mustWith(t, c.last().lim, Config{Rules: []limit.RuleConfig{c.limit()}, Memory: limit.MinMemory})
					case k < 6:
						c.pass(time.Duration(1+c.rng.IntN(4)) * 8 * time.Second)
					default:
						if err := c.request(t); err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						decisions++
					}
				}
				past += c.past
				runtime.KeepAlive(c)
			}
			t.Logf("%d decisions, %d limiters collected, %d charges past one", decisions, collected, past)
			if decisions < 3000 || collected < 30 || past < 300 {
				t.Error("this shows little")
			}
		})
	}
}

// chained is a chain of limiters, and what clients have by each of them.
type chained struct {
	rng       *rand.Rand
	algorithm limit.Algorithm
	all       []*chainedLimit
	past      int // charges that went past a limiter that was collected
}

type chainedLimit struct {
	lim     *Limiter // nil: collected
	config  limit.RuleConfig
	clients *[3]*judge.Client // those that share a table have the same
}

func (c *chained) last() *chainedLimit { return c.all[len(c.all)-1] }

// limit has a rate of which a unit leaks in 1, 2, 4 or 8 s, or periods of 64 s.
func (c *chained) limit() limit.RuleConfig {
	if len(c.all) > 0 && c.rng.IntN(4) == 0 {
		return c.last().config // the same table
	}
	config := withAlgorithm(strictRule("a", 1, time.Second<<c.rng.IntN(4), 1+c.rng.Uint64N(30)), c.algorithm)
	if periodic(config) {
		config.Rate, config.Burst = limit.Rate{N: config.Burst, Per: 64 * time.Second}, 0
	}
	return config
}

func (c *chained) add(t *testing.T, config limit.RuleConfig) {
	t.Helper()
	l := &chainedLimit{config: config, clients: new([3]*judge.Client)}
	if len(c.all) == 0 {
		l.lim = chainOf(t, config)[0]
	} else {
		l.lim = mustWith(t, c.last().lim, Config{Rules: []limit.RuleConfig{config}, Memory: limit.MinMemory})
	}
	rule := l.lim.rules[0]
	for i := range l.clients {
		l.clients[i] = judge.Of(rule.config)
		if len(c.all) > 0 {
			beginWith(l.clients[i], c.last().clients[i], rule.config.Burst)
		}
	}
	if len(c.all) > 0 && rule.buckets.Table.SameBuckets(&c.last().lim.rules[0].buckets.Table) {
		l.clients = c.last().clients
	}
	c.all = append(c.all, l)
}

// beginWith has an oracle begin with what a client has by another one, cut to what its own limit has room
// for. Windows and logs have the same periods.
func beginWith(o, was *judge.Client, most uint64) {
	o.Last, o.Previous, o.Current, o.Times = was.Last, was.Previous, was.Current, slices.Clone(was.Times)
	if o.Level = was.Level; o.Window == 0 {
		o.Level = min(was.Level/was.Per, int64(most)) * o.Per
	}
	keepNewest(o, most)
}

// keepNewest drops what a log has no room for.
func keepNewest(o *judge.Client, most uint64) {
	if over := len(o.Times) - int(most); over > 0 {
		o.Times = o.Times[over:]
		o.Level = int64(most)
	}
}

// pass lets a multiple of 8 s pass.
func (c *chained) pass(by time.Duration) {
	clock := c.last().lim.manual
	clock.Set(clock.Now() + by)
	for _, l := range c.all {
		for _, o := range l.clients {
			o.At(clock.Now())
		}
	}
}

// request has a client ask a limiter that is alive.
func (c *chained) request(t *testing.T) error {
	t.Helper()
	at := c.rng.IntN(len(c.all))
	for c.all[at].lim == nil {
		at = c.rng.IntN(len(c.all))
	}
	l, client, n := c.all[at], c.rng.IntN(3), 1+c.rng.Uint64N(6)
	r := l.lim.rules[0]
	d := r.Take(t.Context(), r.BytesKey([]byte{byte(client)}), n)
	if o := l.clients[client]; d.Allowed == o.Justified(n, r.config.Burst) {
		return fmt.Errorf("limiter %d of %d, %v burst %d, %d units at level %v: allowed %v", at, len(c.all), l.config.Rate, r.config.Burst, n, float64(o.Level)/float64(o.Per), d.Allowed)
	}
	if !d.Allowed {
		return nil
	}
	charged := map[*judge.Client]bool{}
	for i, l := range c.all[at:] {
		if o := l.clients[client]; !charged[o] {
			o.Admit(n)
			keepNewest(o, max(l.config.Burst, l.config.Rate.N))
			charged[o] = true
		}
		if l.lim == nil && i+1 < len(c.all)-at {
			c.past++
		}
	}
	return nil
}
