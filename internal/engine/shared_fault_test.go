package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/testkit/redisfault"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/limit"
)

func TestMain(m *testing.M) {
	redisfault.UseNames()
	os.Exit(m.Run())
}

const (
	faultRate, faultBurst = 50, 20
	faultTimeout          = 20 * time.Millisecond // late enough for a noisy machine
)

// crowd sends requests through a limiter with a rule for each failure policy:
// of a client that floods, and of one that keeps to its limit.
type crowd struct {
	t     *testing.T
	lim   *Limiter
	store *redisstore.Store
	start time.Time
	stop  chan struct{}
	wg    sync.WaitGroup

	exact    atomic.Int64
	degraded [3]atomic.Int64 // by policy
	wrong    [3]atomic.Int64 // degraded decisions against the policy
	denied   [3]atomic.Int64 // of the client that keeps to its limit
	flooded  [3]atomic.Int64 // admitted of the one that floods
}

func startCrowd(t *testing.T, addr string) *crowd {
	t.Helper()
	store, err := redisstore.Open(t.Context(), redisstore.Config{
		URL: "redis://" + addr, Timeout: faultTimeout, RetryMin: faultTimeout, RetryMax: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil && !errors.Is(err, bucket.ErrAway) {
		t.Fatal(err)
	}
	cfg := Config{Store: store, StoreTimeout: faultTimeout, Memory: 4 << 20}
	for _, p := range []limit.OnFailure{limit.FailLocal, limit.FailOpen, limit.FailClosed} {
		r := strictRule(p.String(), faultRate, time.Second, faultBurst)
		r.OnFailure = p
		cfg.Rules = append(cfg.Rules, r)
	}
	lim, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, lim: lim, store: store, start: time.Now(), stop: make(chan struct{})}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	for _, r := range lim.rules {
		for range 2 {
			c.wg.Go(func() { c.flood(r) })
		}
		c.wg.Go(func() { c.conform(r) })
	}
	return c
}

// each calls f for one request after another, a pause apart.
func (c *crowd) each(r *Rule, client string, pause time.Duration, f func(limit.Decision)) {
	key, policy := r.BytesKey([]byte(client)), r.config.OnFailure
	for {
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
		}
		d := r.Take(context.Background(), key, 1)
		if d.Stage == limit.StageExact {
			c.exact.Add(1)
		}
		if d.Degraded {
			c.degraded[policy].Add(1)
			if policy == limit.FailOpen && !d.Allowed || policy == limit.FailClosed && d.Allowed {
				c.wrong[policy].Add(1)
			}
		}
		f(d)
	}
}

func (c *crowd) flood(r *Rule) {
	c.each(r, "flood", time.Millisecond, func(d limit.Decision) {
		if d.Allowed {
			c.flooded[r.config.OnFailure].Add(1)
		}
	})
}

// conform begins with half a burst. The other half is for takes that reach
// Redis later than the timeout: they bunch there.
func (c *crowd) conform(r *Rule) {
	for range faultBurst / 2 {
		r.Take(context.Background(), r.BytesKey([]byte("good")), 1)
	}
	c.each(r, "good", time.Second/faultRate, func(d limit.Decision) {
		if !d.Allowed && !(d.Degraded && r.config.OnFailure == limit.FailClosed) {
			c.denied[r.config.OnFailure].Add(1)
		}
	})
}

// more waits for n more.
func (c *crowd) more(what string, counter *atomic.Int64, n int64) {
	c.t.Helper()
	from := counter.Load()
	redistest.Eventually(c.t, what, func() bool { return counter.Load() >= from+n })
}

// fallback returns a function that waits for decisions by each policy since.
func (c *crowd) fallback() func() {
	var from [3]int64
	for p := range from {
		from[p] = c.degraded[p].Load()
	}
	return func() {
		c.t.Helper()
		for p := range from {
			redistest.Eventually(c.t, "decisions by "+limit.OnFailure(p).String(), func() bool { return c.degraded[p].Load() >= from[p]+5 })
		}
	}
}

// end stops everybody and checks what was promised.
func (c *crowd) end() {
	c.t.Helper()
	close(c.stop)
	c.wg.Wait()
	for _, r := range c.lim.rules {
		p := r.config.OnFailure
		if wrong, denied := c.wrong[p].Load(), c.denied[p].Load(); wrong+denied > 0 {
			c.t.Errorf("%v: %d decisions against the policy, %d denials of the client that keeps to its limit", p, wrong, denied)
		}
		// P2 of a strict rule, with two decisions in flight.
		most := faultRate*time.Since(c.start).Seconds() + faultBurst + faultRate*faultTimeout.Seconds() + 2
		if got := c.flooded[p].Load(); p != limit.FailOpen && float64(got) > most {
			c.t.Errorf("%v: %d admitted of the client that floods, want at most %.1f", p, got, most)
		}
		redistest.Eventually(c.t, "all flights to end", func() bool { return r.shared.InFlight() == 0 })
	}
	if st := c.store.Stats(); st.Queue != 0 {
		c.t.Errorf("%d operations left in the queue", st.Queue)
	}
}

// Every fault of Redis under load: the failure policies decide, no client within its limit is denied, none
// gets more than P2 says, nothing is left behind, and Redis is used again automatically.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	for _, f := range redisfault.All() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Process && os.Getenv(alone) == "" {
				runAlone(t)
				return
			}
			site := redisfault.New(t, &f)
			c := startCrowd(t, site.Addr())
			c.more("exact decisions", &c.exact, 20)
			fallen := c.fallback()
			site.Strike()
			if f.Trips {
				fallen()
			} else {
				c.more("decisions in spite of the fault", &c.exact, 20)
			}
			site.Heal()
			redistest.Eventually(t, "the breaker to close", func() bool { return c.store.Stats().State == "closed" })
			c.more("exact decisions again", &c.exact, 20)
			c.end()
		})
	}
}

// alone is set in a process that runs one test only.
const alone = "FASTLIMIT_TEST_ALONE"

// runAlone runs the test in a process of its own.
func runAlone(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), alone+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Faults that come again and again leave no goroutines and no memory behind.
func TestNothingGrowsUnderFaults(t *testing.T) {
	var struck []redisfault.Fault
	for _, f := range redisfault.All() {
		switch f.Name {
		case "refused", "accept then silent", "reset mid-reply", "slower than a connection lasts":
			struck = append(struck, f)
		}
	}
	if len(struck) != 4 {
		t.Fatalf("%d faults found", len(struck))
	}
	for _, f := range struck {
		site := redisfault.New(t, &f)
		c := startCrowd(t, site.Addr())
		var goroutines, objects [2]uint64
		const cycles = 5
		for cycle := range cycles {
			c.more("exact decisions", &c.exact, 20)
			fallen := c.fallback()
			site.Strike()
			fallen()
			site.Heal()
			redistest.Eventually(t, "the breaker to close", func() bool { return c.store.Stats().State == "closed" })
			if at := map[int]int{1: 0, cycles - 1: 1}; cycle == 1 || cycle == cycles-1 {
				c.more("exact decisions again", &c.exact, 20)
				goroutines[at[cycle]], objects[at[cycle]] = population()
			}
		}
		c.end()
		if goroutines[1] > goroutines[0]+10 || objects[1] > objects[0]+objects[0]/2+5000 {
			t.Errorf("%s: from %d to %d goroutines, from %d to %d objects in %d cycles", f.Name,
				goroutines[0], goroutines[1], objects[0], objects[1], cycles-2)
		}
	}
}

// population counts goroutines, and objects on the heap that are in use.
func population() (goroutines, objects uint64) {
	runtime.GC()
	runtime.GC() // empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return uint64(runtime.NumGoroutine()), m.HeapObjects
}
