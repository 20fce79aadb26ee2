package policy

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// waiter is a caller that does not leave.
type waiter struct{ began, ended int }

func (w *waiter) BeginWait() context.Context {
	w.began++
	return context.Background()
}

func (w *waiter) EndWait() { w.ended++ }

// waitEngine lets requests of a client wait for 2 s, at 1/s and with a burst of 1. Clients of
// 10.0.0.0/8 have no limit, and 192.0.2.9 is denied.
func waitEngine(t *testing.T, mode fastlimit.Mode, most time.Duration) *Engine {
	t.Helper()
	s := Settings{
		Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
		Rules: []RuleSpec{{
			Limit:     fastlimit.RuleConfig{Name: "a", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1, MaxWait: most, Mode: mode},
			Key:       key(byIP),
			Overrides: []Override{{Key: []string{"10.0.0.0/8"}, Unlimited: true}},
		}},
	}
	return runningEngine(t, s)
}

// runningEngine has the machine's clock, without which nobody waits.
func runningEngine(t *testing.T, s Settings) *Engine {
	t.Helper()
	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(lim, s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Both verbs wait where Decide denies, and only there.
func TestWait(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(*Engine, *waiter, *Request, *Scratch) Verdict{
		"Wait": func(e *Engine, w *waiter, r *Request, s *Scratch) Verdict {
			w.began, w.ended = w.began+1, w.ended+1 // is not told
			v := e.Wait(context.Background(), r, s)
			if v.Decision.Stage != fastlimit.StageExact || !v.Decision.Allowed {
				w.began, w.ended = w.began-1, w.ended-1
			}
			return v
		},
		"WaitFor": func(e *Engine, w *waiter, r *Request, s *Scratch) Verdict { return e.WaitFor(w, r, s, time.Now()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e, s, w, start := waitEngine(t, fastlimit.Enforce, 2*time.Second), new(Scratch), new(waiter), time.Now()
			if !e.Waits() {
				t.Error(name, "does not wait")
			}
			var after [5]time.Duration
			for i := range after { // the filter admits the first, the bucket the second
				v := wait(e, w, sampleRequest("192.0.2.1"), s)
				if after[i] = time.Since(start).Round(time.Millisecond); !v.Decision.Allowed || v.Rule == nil {
					t.Errorf("%s: request %d: %+v", name, i, v)
				}
			}
			if want := [5]time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second}; after != want {
				t.Errorf("%s: admitted after %v, want %v", name, after, want)
			}
			if name == "WaitFor" && (w.began != 3 || w.ended != 3) {
				t.Errorf("%+v, want to be told three times", w)
			}
			if v := e.Decide(t.Context(), sampleRequest("192.0.2.1"), s); v.Decision.Allowed {
				t.Errorf("Decide has waited: %+v", v)
			}
			for client, allowed := range map[string]bool{"10.1.1.1": true, "192.0.2.9": false} {
				for range 3 {
					if v := wait(e, w, sampleRequest(client), s); v.Decision.Allowed != allowed || v.Decision.Stage != fastlimit.StageList {
						t.Errorf("%s: %s: %+v", name, client, v)
					}
				}
			}
			if time.Since(start).Round(time.Millisecond) != after[4] {
				t.Errorf("%s: a list has waited", name)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	if waitEngine(t, fastlimit.Shadow, time.Second).Waits() || waitEngine(t, fastlimit.Enforce, 0).Waits() {
		t.Error("nobody waits by a shadow rule, or by one without MaxWait")
	}
}

// Rates that are no rates are counted once for each request, also by the verbs that wait.
func TestWaitCountsBadRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := ratedSettings()
		set.Rules[0].Limit.MaxWait = time.Hour
		e, id, s := runningEngine(t, set), mustIdentity(t, "X-Forwarded-For", "10.0.0.0/8"), new(Scratch)
		var r Request
		for i := range uint64(5) { // the fifth waits
			in := Incoming{Peer: netip.MustParseAddr("10.0.0.1"), Fields: wire{"X-Forwarded-For": {"192.0.2.1"}, "X-Limit": {"x"}}}
			e.Assemble(id, &in, s, &r)
			if v := e.WaitFor(new(waiter), &r, s, time.Now()); !v.Decision.Allowed || e.rules[0].limit.Stats().BadRates != i+1 {
				t.Errorf("%+v, %d bad rates, want %d", v, e.rules[0].limit.Stats().BadRates, i+1)
			}
		}
	})
}

// Who waits when live overrides are replaced goes on by the limit that it came by, in order
// and at its rate; who comes later gets in line where its limit is now. A tier that is
// dropped lets those go on who wait in it.
func TestWaitWhileOverridesChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := Settings{Rules: []RuleSpec{{
			Limit: fastlimit.RuleConfig{Name: "a", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1, MaxWait: time.Minute, Strict: true},
			Key:   key(byIP),
		}}}
		e := runningEngine(t, set)
		base, start := e.rules[0].limit, time.Now()
		var all sync.WaitGroup
		var after [12]time.Duration
		ask := func(first, n int) {
			for i := first; i < first+n; i++ {
				now := e
				all.Go(func() {
					v := now.WaitFor(new(waiter), sampleRequest("192.0.2.1"), new(Scratch), time.Now())
					if after[i] = time.Since(start).Round(time.Millisecond); !v.Decision.Allowed {
						t.Errorf("%d: %+v", i, v)
					}
				})
				synctest.Wait()
			}
		}
		live := func(of ...LiveOverride) {
			next, err := e.WithLive(&set, of)
			if err != nil {
				t.Fatal(err)
			}
			e = next
		}
		ask(0, 4) // by the rule: at 0, 1, 2 and 3 s
		tier, err := (*engine.Rule)(base).NewTier(fastlimit.Tier{Rate: fastlimit.Rate{N: 10, Per: time.Second}, Burst: 1})
		if err != nil {
			t.Fatal(err)
		}
		live(LiveOverride{Rule: 0, Key: []string{"192.0.2.1"}, Tier: (*fastlimit.Rule)(tier)})
		ask(4, 4) // by the tier: at 0, 100, 200 and 300 ms
		live(LiveOverride{Rule: 0, Key: []string{"192.0.2.1"}})
		(*engine.Rule)(base).DropTier(tier)
		ask(8, 1) // not limited
		live()
		ask(9, 3) // behind those who wait by the rule
		if w := base.Stats().Waits.Waiting; w != 9 {
			t.Errorf("%d wait, want 9", w)
		}
		all.Wait()
		for i, want := range [...]time.Duration{0, 1000, 2000, 3000, 0, 100, 200, 300, 0, 4000, 5000, 6000} {
			if after[i] != want*time.Millisecond {
				t.Errorf("request %d is admitted after %v, want %d ms", i, after[i], want)
			}
		}
		if w := base.Stats().Waits; w != (fastlimit.WaitStats{Admitted: 9}) {
			t.Errorf("%+v", w)
		}
	})
}

// One that need not wait costs no memory.
func TestWaitForDoesNotAllocate(t *testing.T) { // not parallel: AllocsPerRun counts all
	e, s, w := waitEngine(t, fastlimit.Enforce, time.Nanosecond), new(Scratch), new(waiter)
	r := liveRequest("192.0.2.1")
	wantNoAllocs(t, "WaitFor", func() { e.WaitFor(w, r, s, time.Now()) })
	if w.began > 0 {
		t.Error("it has waited")
	}
}
