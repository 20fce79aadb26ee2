package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// A successor that merges knows whom its predecessor denied, at any zero of the clocks, by
// other limits and in other sizes, and nobody else is denied.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ was, is limit.RuleConfig }{
		"the same":       {rule("a", 1, time.Second, 10), rule("a", 1, time.Second, 10)},
		"another rate":   {rule("a", 1, time.Second, 10), rule("a", 1, time.Minute, 10)},
		"a lower burst":  {rule("a", 1, time.Second, 20), rule("a", 1, time.Second, 10)},
		"no sketch":      {withStrict(rule("a", 1, time.Second, 10)), rule("a", 1, time.Second, 10)},
		"window":         {windowRule("a", 10, time.Hour), windowRule("a", 10, time.Hour)},
		"sliding window": {slidingRule("a", 10, time.Hour), slidingRule("a", 10, time.Hour)},
		"log":            {logRule("a", 10, time.Hour), logRule("a", 10, time.Hour)},
	} {
		clock := new(ManualClock)
		clock.SetStart(time.Unix(1_000_000, 0))
		from, err := New(Config{Rules: []limit.RuleConfig{rule("z", 1, time.Second, 3), tc.was}, Secret: [32]byte{1}, Memory: 2 * limit.MinMemory, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		own := new(ManualClock)
		own.SetStart(time.Unix(1_000_000+40, 0))
		l, err := New(Config{Rules: []limit.RuleConfig{tc.is}, Secret: [32]byte{1}, Memory: limit.MinMemory, Clock: own})
		if err != nil {
			t.Fatal(err)
		}
		clock.Set(50 * time.Second)
		own.Set(10 * time.Second)
		was, is := from.byName["a"], l.rules[0]
		for range 40 {
			was.Allow(was.BytesKey([]byte("x")))
		}
		kept := is.BytesKey([]byte("kept"))
		for range 3 {
			is.Allow(kept)
		}
		if err := l.Merge(from); err != nil {
			t.Fatal(err)
		}
		if d := is.Take(t.Context(), is.BytesKey([]byte("x")), 2); d.Allowed {
			t.Errorf("%s: whom the predecessor denied is admitted: %+v", name, d)
		}
		for _, who := range []string{"kept", "new"} {
			n := 0
			for is.Allow(is.BytesKey([]byte(who))) {
				n++
			}
			if n < 7 || n > 16 {
				t.Errorf("%s: %q is admitted %d more", name, who, n)
			}
		}
	}
	a, b := mustNew(t, rule("a", 1, time.Second, 10)), mustNew(t, rule("a", 1, time.Second, 10))
	b.secret[0]++
	if err := a.Merge(b); err == nil {
		t.Error("another secret: no error")
	}
}

// TestChangesInUse alternates limits of one burst under load, for the race detector: one client
// gets what P2 says of the units that never leak, with what is in flight at each change.
func TestChangesInUse(t *testing.T) {
	t.Parallel()
	const burst, workers, changes = 1000, 8, 30
	config := func(i int) Config {
		theta := []float64{0.5, 0.2, 0.4}[i%3]
		c := Config{Rules: []limit.RuleConfig{withTheta(rule("a", 1+uint64(i%2), 24*time.Hour, burst), theta)}, TopTalkers: 64, Memory: 4 << 20, Clock: new(ManualClock)}
		if i%4 == 3 {
			c.Rules = append(c.Rules, rule("b", 1, time.Minute, 50))
		}
		return c
	}
	first := config(0)
	lim, err := New(first)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.RWMutex
	var wg, changer sync.WaitGroup
	counts := make([]int, workers)
	var asked atomic.Int64
	stop := make(chan struct{})
	for w := range workers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.RLock()
				l := lim
				mu.RUnlock()
				r := l.rules[0]
				if r.Allow(r.BytesKey([]byte("x"))) {
					counts[w]++
				}
				asked.Add(1)
			}
		})
	}
	changer.Go(func() {
		for i := range changes {
			for asked.Load() < int64(i+1)*2*burst/changes {
				runtime.Gosched()
			}
			c := config(i + 1)
			c.Clock = nil
			next := mustWith(t, lim, c)
			mu.Lock()
			lim = next
			mu.Unlock()
			next.Advance()
		}
	})
	changer.Wait()
	close(stop)
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if most := burst*3/2 + 1 + (changes+1)*workers; sum > most {
		t.Errorf("%d admitted of one client, want at most %d", sum, most)
	}
	if r := lim.rules[0]; sum < burst || r.Allow(r.BytesKey([]byte("x"))) {
		t.Errorf("%d admitted of one client, of whom the last limiter knows nothing", sum)
	}
}
