package engine

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/limit"
)

// TestOlderTimeCountsAsLatest sets the clock back by 1 ns to an hour, before
// every call that asks it.
func TestOlderTimeCountsAsLatest(t *testing.T) {
	t.Parallel()
	calls := map[string]func(r *Rule, now time.Duration){
		"Take":       func(r *Rule, now time.Duration) { takeAt(r, r.BytesKey([]byte("y")), 1, now) },
		"TakeAll":    func(r *Rule, now time.Duration) { takeAllAt(r.limiter, []Charge{charge(r, 1)}, now) },
		"Peek":       func(r *Rule, now time.Duration) { peekAt(r, r.BytesKey([]byte("y")), 1, now) },
		"ChargePeer": func(r *Rule, now time.Duration) { chargePeerAt(r, 1, 1, now) },
		"Advance":    func(r *Rule, now time.Duration) { advanceAt(r.limiter, now) },
	}
	for name, stale := range calls {
		for step := time.Duration(1); step <= time.Hour; step = step*7 + 1 {
			lim := mustNew(t, strictRule("a", 1, time.Second, 2))
			r, key, start := lim.rules[0], lim.rules[0].BytesKey([]byte("x")), 2*time.Hour
			take := func(now time.Duration, want bool, retry time.Duration) {
				t.Helper()
				if d := takeAt(r, key, 1, now); d.Allowed != want || d.RetryAfter != retry {
					t.Fatalf("%s back by %v, take at %v: %+v, want allowed %v, retry after %v", name, step, now-start, d, want, retry)
				}
			}
			take(start, true, 0)
			stale(r, start-step)
			take(start-step, true, 0)
			take(start, false, time.Second)
			take(start-step, false, time.Second)
			stale(r, start-step)
			take(start+time.Second-time.Microsecond, false, time.Microsecond)
			take(start+time.Second, true, 0)
		}
	}
}

// One caller whose readings are late by seconds moves time for nobody.
func TestStaleTimesMoveNobody(t *testing.T) {
	t.Parallel()
	r := mustNew(t, strictRule("a", 10, time.Second, 10)).rules[0]
	hot, late := r.BytesKey([]byte("hot")), r.BytesKey([]byte("late"))
	admitted := 0
	for i := range 100 {
		now := 10*time.Second + time.Duration(i)*100*time.Millisecond
		for range 100 {
			if takeAt(r, hot, 1, now).Allowed {
				admitted++
			}
		}
		takeAt(r, late, 1, now-1500*time.Millisecond)
	}
	if want := 10 + 99; admitted != want { // the burst, and 9.9 s of the rate
		t.Errorf("%d admitted, want %d", admitted, want)
	}
}

func TestClockSetBackAndAhead(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, strictRule("a", 1, time.Second, 2))
	r := lim.rules[0]
	key := r.BytesKey([]byte("x"))
	takeAt(r, key, 2, time.Hour)
	for i, s := range []struct {
		now  time.Duration
		want bool
	}{
		{time.Hour, false},
		{10 * time.Minute, false}, // set back: time stands still
		{10*time.Minute + 10*time.Second, false},
		{time.Hour - 1, false},
		{time.Hour + 999*time.Millisecond, false},
		{time.Hour + time.Second, true}, // until the clock has caught up
		{-1 << 63, false},
		{365 * 24 * time.Hour, true}, // a long jump
		{2 * time.Hour, true},        // of which the burst has two
		{3 * time.Hour, false},       // all other times are stale now
		{365*24*time.Hour + time.Second, true},
	} {
		if got := takeAt(r, key, 1, s.now).Allowed; got != s.want {
			t.Errorf("step %d at %v: allowed %v, want %v", i, s.now, got, s.want)
		}
	}
}

// TestOvertaken: a request that read the clock before another of its client,
// and gets to the bucket after it, is judged by the time of the other one. Each
// step of a decision that can deny has it.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	const read, overtook = 10 * time.Second, 15 * time.Second
	for name, judge := range map[string]func(r *Rule, key Key) limit.Decision{
		"by the table": func(r *Rule, key Key) limit.Decision { return r.take(t.Context(), key, 1, read, stackStripe()) },
		"by the exact bucket": func(r *Rule, key Key) limit.Decision {
			return r.exact(t.Context(), key, 1, read, stackStripe())
		},
		"by one of many rules": func(r *Rule, key Key) limit.Decision {
			all := []Charge{{Rule: r.limiter.rules[1], Key: r.limiter.rules[1].BytesKey(nil), Cost: 1}, {Rule: r, Key: key, Cost: 1}}
			d, _ := r.limiter.takeAll(t.Context(), all, read)
			return d
		},
	} {
		r := mustNew(t, strictRule("a", 1, time.Second, 2), rule("b", 1, time.Second, 2)).rules[0]
		key := r.BytesKey([]byte("x"))
		setTime(r.limiter, read)
		takeAt(r, key, 1, overtook)
		if d := judge(r, key); !d.Allowed {
			t.Errorf("%s: a client that sent one request 5 s ago is denied: %+v", name, d)
		}
		want := limit.StageTable
		if name == "by the exact bucket" {
			want = limit.StageExact
		}
		if d := judge(r, key); d.Allowed || d.RetryAfter != time.Second || d.Stage != want {
			t.Errorf("%s: one more than the burst: %+v", name, d)
		}
	}
}

// The same on the limiter's own clock, with a reading that is late by 0.9 s.
func TestOvertakenOnOwnClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lim, err := New(Config{Memory: limit.MinMemory, Rules: []limit.RuleConfig{strictRule("a", 1, time.Second, 2)}})
		if err != nil {
			t.Fatal(err)
		}
		all := []Charge{charge(lim.rules[0], 1)}
		time.Sleep(time.Hour)
		read := time.Now()
		time.Sleep(900 * time.Millisecond)
		for i, want := range []bool{true, true, false} {
			if d, _ := lim.TakeAllAt(t.Context(), all, read); d.Allowed != want {
				t.Errorf("request %d: %+v", i, d)
			}
			if i == 0 { // on time, so that the first stale one did not decide alone
				lim.rules[0].Reset(all[0].Key)
				lim.TakeAll(t.Context(), all)
			}
		}
		// Before the limiter was made, and far before it.
		for _, ago := range []time.Duration{2 * time.Hour, 290 * 365 * 24 * time.Hour} {
			if d, _ := lim.TakeAllAt(t.Context(), []Charge{charge(lim.rules[0], 2)}, time.Now().Add(-ago)); d.Allowed {
				t.Errorf("a full bucket, read %v ago: %+v", ago, d)
			}
		}
	})
}

// TestConformsInOrderOfReadings is P1 for goroutines that overtake each other:
// a client with C requests in flight that leaves room for C in its burst is
// never denied if it conforms in the order in which it read the clock.
func TestConformsInOrderOfReadings(t *testing.T) {
	t.Parallel()
	const inFlight, each, gap = 16, 4000, time.Millisecond // T, exactly the rate
	theta := 0.0
	unfiltered := rule("a", 1000, time.Second, inFlight+1)
	unfiltered.EscalateAt = &theta
	lim := mustNew(t, unfiltered, strictRule("b", 1000, time.Second, inFlight+1))
	var mu sync.Mutex
	var now time.Duration
	read := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now += gap
		return setTime(lim, now)
	}
	var wg sync.WaitGroup
	for g := range inFlight {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 11))
			one, both := []Charge{charge(lim.rules[1], 1)}, []Charge{charge(lim.rules[1], 1), charge(lim.rules[0], 1)}
			for range each {
				at := read()
				for rng.IntN(4) > 0 { // overtaken by as many as want to
					runtime.Gosched()
				}
				all := one
				if rng.IntN(2) == 0 {
					all = both
				}
				if d, by := lim.takeAll(t.Context(), all, at); !d.Allowed {
					t.Errorf("read at %v: denied by charge %d: %+v", at, by, d)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestClockEnds: no time is counted wrongly. What a rule cannot count, or a
// limiter that is too old, is refused by name.
func TestClockEnds(t *testing.T) {
	t.Parallel()
	const unix = time.Duration(1_795_000_000e9) // as if it were a time since a recent start
	for _, tt := range []struct {
		rate limit.Rate
		ends bool // before Unix times
	}{
		{limit.Rate{N: 1, Per: 24 * time.Hour}, false},
		{limit.Rate{N: 100, Per: time.Second}, false},
		{limit.Rate{N: 1000, Per: 1000003 * time.Microsecond}, false},
		{limit.Rate{N: 5138, Per: 1000003 * time.Microsecond}, false},
		{limit.Rate{N: 5139, Per: 1000003 * time.Microsecond}, true},
		{limit.Rate{N: 65533, Per: time.Second}, true},
		{limit.Rate{N: 65536, Per: 1000003 * time.Microsecond}, true},
	} {
		lim := mustNew(t, rule("other", 1, time.Second, 2), strictRule("a", tt.rate.N, tt.rate.Per, 2))
		r := lim.rules[1]
		key := r.BytesKey([]byte("x"))
		last := lim.LastTime()
		if last < 4*365*24*time.Hour || (last < unix) != tt.ends {
			t.Errorf("%v: the last time is %v", tt.rate, last)
		}
		if got := testkit.Recovered(func() { takeAt(r, key, 1, unix) }); (got != "") != tt.ends {
			t.Errorf("%v: Unix time: panic %q", tt.rate, got)
		}
		perUnit := tt.rate.Per / time.Duration(tt.rate.N)
		for _, now := range []time.Duration{last - 2*perUnit - time.Millisecond, last} {
			for i, want := range []bool{true, true, false} {
				if d := takeAt(r, key, 1, now); d.Allowed != want || !want && (d.RetryAfter <= 0 || d.RetryAfter > perUnit+time.Microsecond) {
					t.Errorf("%v: request %d at %v before the end: %+v", tt.rate, i, last-now, d)
				}
			}
			advanceAt(lim, now)
			takeAt(lim.rules[0], lim.rules[0].BytesKey(nil), 1, now) // through filter and sketch
		}
		if last == 1<<63-1 {
			continue // every time.Duration is counted
		}
		if got := testkit.Recovered(func() { takeAt(r, key, 1, last+1) }); !strings.HasPrefix(got, "BUG: fastlimit: ") || !strings.Contains(got, `rule "a"`) || !strings.Contains(got, "since a recent start") {
			t.Errorf("%v: set past the end: panic %q", tt.rate, got)
		}
		late := new(ManualClock)
		late.Set(last + 1) // which no limiter can count yet
		if _, err := New(Config{Rules: []limit.RuleConfig{r.config}, Clock: late}); err == nil || !strings.Contains(err.Error(), "Clock: at") {
			t.Errorf("%v: a limiter with a clock past its end: %v", tt.rate, err)
		}
		lim, err := New(Config{Rules: []limit.RuleConfig{lim.rules[0].config, r.config}})
		if err != nil {
			t.Fatal(err)
		}
		r = lim.rules[1]
		key = r.BytesKey([]byte("x"))
		startEarlier(lim, last+time.Hour)
		if got := testkit.Recovered(func() { r.Allow(key) }); !strings.Contains(got, "make a new one") {
			t.Errorf("%v: on the limiter's own clock, past the end: panic %q", tt.rate, got)
		}
	}
}

// The windows of a second end in 2106, as their numbers have 32 bits. Until then they count
// exactly, and a clock that is later is refused.
func TestLastWindow(t *testing.T) {
	t.Parallel()
	const last = 1<<32*time.Second - 1
	limiter := func(start time.Duration, c limit.RuleConfig) (*Limiter, error) {
		clock := new(ManualClock)
		clock.SetStart(time.Unix(0, int64(start)))
		return New(Config{Rules: []limit.RuleConfig{withStrict(c)}, Clock: clock})
	}
	second := windowRule("a", 3, time.Second)
	for _, c := range []limit.RuleConfig{second, windowRule("a", 3, 3*time.Second), slidingRule("a", 3, time.Second)} {
		lim, err := limiter(last-2*time.Second, c)
		if err != nil {
			t.Fatal(err)
		}
		ends := c.Algorithm == limit.FixedWindow && c.Rate.Per == time.Second
		if end := lim.LastTime(); end != 2*time.Second && ends || end != math.MaxInt64 && !ends {
			t.Errorf("%v: the last time is %v", c.Rate, end)
		}
		r := lim.rules[0]
		if d := takeAt(r, r.BytesKey([]byte("x")), 3, 2*time.Second); !d.Allowed {
			t.Errorf("%v: in the last window of a second: %+v", c.Rate, d)
		}
		if got := testkit.Recovered(func() { takeAt(r, r.BytesKey([]byte("x")), 1, 2*time.Second+1) }); (got != "") != ends || ends && !strings.Contains(got, `rule "a"`) {
			t.Errorf("%v: after it: panic %q", c.Rate, got)
		}
		if _, err := limiter(last+1, c); (err != nil) != ends || ends && !strings.Contains(err.Error(), "Clock: the wall time") {
			t.Errorf("%v: a limiter after it: %v", c.Rate, err)
		}
	}
}
