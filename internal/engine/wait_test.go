package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/limit"
)

// waitRule is strict, so that each request is decided by the bucket.
func waitRule(name string, n, burst uint64, most time.Duration) limit.RuleConfig {
	return limit.RuleConfig{Name: name, Rate: limit.Rate{N: n, Per: time.Second}, Burst: burst, MaxWait: most, Strict: true}
}

func waiting(t *testing.T, c Config) *Limiter {
	t.Helper()
	c.Memory = cmp.Or(c.Memory, limit.MinMemory)
	lim, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// inBubbles runs a test in memory and with a store, whose buckets hold what leaks in 1 µs
// more, in a bubble each.
func inBubbles(t *testing.T, test func(t *testing.T, c Config)) {
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, Config{}) })
	})
	t.Run("store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New(memstore.Config{})
			defer func() { _ = s.Close(context.Background()) }()
			test(t, Config{Store: s, StoreTimeout: time.Microsecond})
		})
	})
}

// party is a number of callers of Wait, with the times and order of their admissions.
type party struct {
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex
	in    []int           // guarded by mu
	at    []time.Duration // guarded by mu
	out   map[int]limit.Decision
}

func newParty() *party { return &party{start: time.Now(), out: map[int]limit.Decision{}} }

// ask has guest i call wait, and returns when nothing moves any more.
func (p *party) ask(i int, wait func() limit.Decision) {
	p.wg.Go(func() {
		d := wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.Allowed {
			p.in, p.at = append(p.in, i), append(p.at, time.Since(p.start))
		} else {
			p.out[i] = d
		}
	})
	synctest.Wait()
}

// sofar returns who is in and who is out by now.
func (p *party) sofar() ([]int, map[int]limit.Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.in), maps.Clone(p.out)
}

// Twenty that come at once, at 10/s, are let in one by one over 2 s; twenty more than
// that are not.
func TestWaitRamp(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules, c.Wait.PerKey = []limit.RuleConfig{waitRule("a", 10, 1, 2*time.Second)}, 100
		lim := waiting(t, c)
		r, p := lim.rules[0], newParty()
		for i := range 40 {
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		if s := r.Stats().Waits; s.Waiting != 20 {
			t.Fatalf("%+v, want 20 waiting", s)
		}
		p.wg.Wait()
		for i, at := range p.at {
			// With a store the bucket holds a little more, and one is asked again after 1 ms.
			if want := time.Duration(i) * 100 * time.Millisecond; p.in[i] != i || at > want+time.Millisecond || at < want-time.Microsecond*time.Duration(i+1) {
				t.Errorf("guest %d in at %v, want guest %d at %v", p.in[i], at, i, want)
			}
		}
		if len(p.at) != 21 || len(p.out) != 19 {
			t.Errorf("%d in and %d out, want 21 and 19", len(p.at), len(p.out))
		}
		for i, d := range p.out {
			if d.Stage != limit.StageTable || d.Remaining != 0 || (d.RetryAfter-2100*time.Millisecond).Abs() > time.Microsecond {
				t.Errorf("guest %d: %+v, want to retry in 2.1 s", i, d)
			}
		}
		s, all := r.Stats().Waits, r.Stats()
		if s != (limit.WaitStats{Admitted: 20}) || all.Allowed[limit.StageExact] != 21 || all.Denied[limit.StageTable] != 19 || all.Denied[limit.StageExact] != 0 {
			t.Errorf("%+v, %v and %v: each counts once", s, all.Allowed, all.Denied)
		}
	})
}

// A request that leaves gives its slot to the next, even if it is first, and takes nothing.
func TestWaitLeave(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{waitRule("a", 10, 1, 2*time.Second)}
		r := waiting(t, c).rules[0]
		p, cancels := newParty(), make([]context.CancelFunc, 7)
		for i := range 7 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels[i] = cancel
			p.ask(i, func() limit.Decision { return r.Wait(ctx, r.BytesKey([]byte("a")), 1) })
		}
		time.Sleep(50 * time.Millisecond)
		for _, i := range []int{1, 3, 6} { // the first, one in between, the last
			cancels[i]()
			synctest.Wait()
		}
		p.ask(7, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		p.wg.Wait()
		if want := []int{0, 2, 4, 5, 7}; !slices.Equal(p.in, want) {
			t.Errorf("in: %v, want %v", p.in, want)
		}
		for i, at := range p.at {
			if want := time.Duration(i) * 100 * time.Millisecond; (at - want).Abs() > time.Millisecond {
				t.Errorf("guest %d in at %v, want %v", p.in[i], at, want)
			}
		}
		for i, d := range p.out {
			if d != exact.Abandoned() {
				t.Errorf("guest %d, who left: %+v", i, d)
			}
		}
		if s := r.Stats().Waits; s != (limit.WaitStats{Admitted: 4, Left: 3}) {
			t.Errorf("%+v", s)
		}
	})
}

// Slots are bounded per client and in all, and requests without one are denied at once.
func TestWaitPlaces(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{waitRule("a", 1, 5, time.Minute), waitRule("b", 1, 5, time.Minute)}
		c.Wait = limit.WaitLimits{PerKey: 2, Total: 3}
		lim := waiting(t, c)
		p, n := newParty(), 0
		ask := func(rule int, key string, cost uint64) {
			r := lim.rules[rule]
			p.ask(n, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte(key)), cost) })
			n++
		}
		for _, key := range []string{"x", "y"} {
			ask(0, key, 5)
			ask(1, key, 5)
		}
		ask(0, "x", 2) // 4: waits
		ask(0, "x", 1) // 5: waits
		ask(0, "x", 1) // 6: the client's places are taken
		ask(0, "x", 6) // 7: never fits
		ask(1, "x", 1) // 8: waits
		ask(1, "y", 1) // 9: all are taken
		ask(0, "z", 1) // 10: does not have to wait
		p.wg.Wait()
		if want := []int{0, 1, 2, 3, 10, 8, 4, 5}; !slices.Equal(p.in, want) {
			t.Errorf("in: %v, want %v", p.in, want)
		}
		for i, retry := range map[int]time.Duration{6: 4 * time.Second, 7: bucket.Never, 9: time.Second} {
			if d := p.out[i]; d.Stage != limit.StageTable || d.RetryAfter != retry && d.RetryAfter != retry-time.Microsecond {
				t.Errorf("%d: %+v, want to retry in %v", i, d, retry)
			}
		}
		a, b := lim.rules[0].Stats().Waits, lim.rules[1].Stats().Waits
		if a != (limit.WaitStats{Admitted: 2, Refused: 1}) || b != (limit.WaitStats{Admitted: 1, Refused: 1}) {
			t.Errorf("%+v, %+v", a, b)
		}
	})
}

// StopWaiting denies all waiting requests, and none wait any more, even in limiters that continue the state.
func TestStopWaiting(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{waitRule("a", 1, 1, time.Hour)}
		lim := waiting(t, c)
		next, err := lim.With(Config{Memory: limit.MinMemory, Store: c.Store, StoreTimeout: c.StoreTimeout, Rules: []limit.RuleConfig{waitRule("a", 1, 1, time.Minute)}})
		if err != nil {
			t.Fatal(err)
		}
		p := newParty()
		for i := range 6 {
			r := []*Limiter{lim, next}[i%2].rules[0]
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		if s := lim.rules[0].Stats().Waits; s.Waiting != 5 || s != next.rules[0].Stats().Waits {
			t.Errorf("%+v: both have the same lines", s)
		}
		next.StopWaiting()
		p.wg.Wait()
		lim.StopWaiting() // again
		r := next.rules[0]
		d := r.Wait(t.Context(), r.BytesKey([]byte("a")), 1)
		if time.Since(p.start) != 0 || len(p.out) != 5 || d.Allowed || d.RetryAfter <= 0 || p.out[1].RetryAfter <= 0 {
			t.Errorf("%v, %+v after %v", d, p.out, time.Since(p.start))
		}
		if s := r.Stats().Waits; s != (limit.WaitStats{Denied: 5}) || lim.waiters.Slots() != 0 {
			t.Errorf("%+v, %d places", s, lim.waiters.Slots())
		}
		time.Sleep(time.Second)
		if d := r.Wait(t.Context(), r.BytesKey([]byte("a")), 1); !d.Allowed {
			t.Errorf("%+v after one unit has leaked", d)
		}
	})
}

// What does not wait: a shadow rule, one on a manual clock, a peek.
func TestWaitIsTake(t *testing.T) {
	t.Parallel()
	shadow := waitRule("a", 1, 1, time.Hour)
	shadow.Mode = limit.Shadow
	for name, c := range map[string]Config{
		"shadow":   {Rules: []limit.RuleConfig{shadow}},
		"clock":    {Rules: []limit.RuleConfig{waitRule("a", 1, 1, time.Hour)}, Clock: new(ManualClock)},
		"not set":  {Rules: []limit.RuleConfig{waitRule("a", 1, 1, 0)}},
		"shadow 2": {Rules: []limit.RuleConfig{shadow, waitRule("b", 1, 100, time.Hour)}},
	} {
		lim := waiting(t, c)
		r := lim.rules[0]
		key := r.BytesKey([]byte("a"))
		first, second := r.Wait(t.Context(), key, 1), r.Wait(t.Context(), key, 1)
		if !first.Allowed || second.Allowed || second.RetryAfter == 0 || r.Stats().Waits != (limit.WaitStats{}) {
			t.Errorf("%s: %+v, then %+v", name, first, second)
		}
		if d := r.Wait(t.Context(), key, 0); !d.Allowed || d.Remaining != 0 {
			t.Errorf("%s: peek %+v", name, d)
		}
		if name == "shadow 2" {
			b := lim.rules[1]
			d, by := lim.WaitAll(t.Context(), []Charge{{r, key, 1}, {b, b.BytesKey([]byte("a")), 1}})
			if !d.Allowed || by != 1 {
				t.Errorf("%+v by %d: a shadow rule makes nobody wait", d, by)
			}
		}
	}
}

// NERD lets one request wait, which goes into debt, and denies those that come meanwhile
// (NERDweb/ratelimit.py, its default rule). One slot is the same; its request waits for its units and then
// takes them.
func TestWaitLikeNERD(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, c Config) {
		c.Rules = []limit.RuleConfig{{Name: "a", Rate: limit.Rate{N: 1, Per: 5 * time.Second}, Burst: 5, MaxWait: 5 * time.Second, Strict: true}}
		c.Wait.PerKey = 1
		r, p := waiting(t, c).rules[0], newParty()
		for i := range 7 {
			p.ask(i, func() limit.Decision { return r.Wait(t.Context(), r.BytesKey([]byte("a")), 1) })
		}
		if in, out := p.sofar(); fmt.Sprint(in) != "[0 1 2 3 4]" || len(out) != 1 || out[6].Stage != limit.StageTable {
			t.Errorf("five at once are in, and the seventh is out while the sixth waits: %v, %v", in, out)
		}
		if d := r.Take(t.Context(), r.BytesKey([]byte("a")), 1); d.Allowed {
			t.Errorf("%+v for one that does not wait", d)
		}
		p.wg.Wait()
		if len(p.at) != 6 || (p.at[5]-5*time.Second).Abs() > time.Millisecond {
			t.Errorf("in at %v, the sixth after 5 s", p.at)
		}
	})
}
