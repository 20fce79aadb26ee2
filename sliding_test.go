package fastlimit

import (
	"strings"
	"testing"
	"time"
)

// What is planned for sliding windows and logs, and what is refused.
func TestSlidingPlans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule    RuleConfig
		shared  bool
		nodes   int
		most    uint64
		cluster uint64
		filter  bool
	}{
		{slidingRule("a", 100, time.Second), false, 0, 151, 151, true},
		{slidingRule("a", 100, time.Second), true, 3, 151, 100 + 3*51, true},
		{slidingRule("a", 100, 24*time.Minute), true, 1, 151, 151, true},
		{slidingRule("a", 100, 25*time.Minute), true, 1, 150, 150, false},
		{withStrict(slidingRule("a", 1<<21-1, time.Hour)), true, 3, 1<<21 - 1, 1<<21 - 1, false},
		{logRule("a", 100, time.Second), false, 3, 151, 3 * 151, true},
		{logRule("a", 4096, time.Second), true, 1, 6145, 6145, true},
		{logRule("a", 100, time.Hour), true, 1, 151, 151, true},
		{logRule("a", 100, time.Hour+time.Second), true, 1, 150, 150, false},
	} {
		p, err := NewPlan(Config{Rules: []RuleConfig{tt.rule}, Nodes: tt.nodes, Shared: tt.shared})
		if err != nil {
			t.Fatal(err)
		}
		rp := &p.Rules[0]
		rate, burst := rp.ClusterBound(time.Second)
		if rp.MaxBurst() != tt.most || rp.ClusterWindow() != tt.cluster || rp.Filter != tt.filter || rp.Logged() == rp.Windowed() ||
			burst != 2*tt.cluster || rate != float64(tt.cluster)/tt.rule.Rate.Per.Seconds() || p.Memory > DefaultMemory {
			t.Errorf("%v %+v, %d nodes: %d, %d, filter %t, %v and %d", tt.rule.Algorithm, tt.rule.Rate, tt.nodes, rp.MaxBurst(), rp.ClusterWindow(), rp.Filter, rate, burst)
		}
	}
	long := logRule("a", 100, time.Second)
	long.CountDenied = true
	for want, c := range map[string]Config{
		`rule "a": CountDenied: a sliding log does not count denied requests`:                         {Rules: []RuleConfig{long}},
		`rule "a": Rate: logs of 10000 units take 90037 bytes for each client: the rule's share of`:   {Rules: []RuleConfig{logRule("a", 10_000, time.Second)}},
		`rule "b": Rate: logs of 4000 units take`:                                                     {Rules: []RuleConfig{logRule("a", 10, time.Second), logRule("b", 4000, time.Second)}, Memory: 8 << 20},
		`rule "a": Rate: a log of 4097 units is too long for a shared store: want at most 4096`:       {Rules: []RuleConfig{logRule("a", 4097, time.Second)}, Shared: true},
		`rule "a": Rate: 32768 units in a sliding window of 1s are too many: want at most 32767`:      {Rules: []RuleConfig{slidingRule("a", 1<<15, time.Second)}},
		`rule "a": Rate: period 1.01s is not whole sixteenths of a second: want whole seconds`:        {Rules: []RuleConfig{slidingRule("a", 5, 1010*time.Millisecond)}},
		`rule "a": Cost: cost 6 is above the 5 of a period: no request would ever be admitted: lower`: {Rules: []RuleConfig{func() RuleConfig { c := logRule("a", 5, time.Hour); c.Cost = 6; return c }()}},
	} {
		if _, err := NewPlan(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Around the end of a period neither a sliding window nor a log lets twice the limit
// pass, and a client that waits as long as it was told is admitted.
func TestSlidingEdge(t *testing.T) {
	t.Parallel()
	for _, c := range []RuleConfig{slidingRule("a", 10, time.Minute), logRule("a", 10, time.Minute)} {
		lim := mustNew(t, withStrict(c))
		r := lim.rules[0]
		key, admitted := r.BytesKey([]byte("client")), 0
		for i := range 200 {
			if takeAt(r, key, 1, time.Minute+time.Duration(i-100)*time.Millisecond).Allowed {
				admitted++
			}
		}
		if admitted != 10 {
			t.Errorf("%v: %d admitted around the end of a period", c.Algorithm, admitted)
		}
		at := time.Minute + 100*time.Millisecond
		for _, n := range []uint64{1, 4, 10} {
			d := takeAt(r, key, n, at)
			if d.Allowed || d.Remaining != 0 || d.RetryAfter <= 0 || d.TimeToEmpty < d.RetryAfter {
				t.Errorf("%v, %d units: %+v", c.Algorithm, n, d)
			}
			if v := r.Peek(key, n); v.Allowed {
				t.Errorf("%v, %d units: peeked %+v", c.Algorithm, n, v)
			}
			setTime(lim, at+d.RetryAfter-time.Microsecond)
			if v := r.Peek(key, n); v.Allowed {
				t.Errorf("%v: %d units fit sooner than in %v", c.Algorithm, n, d.RetryAfter)
			}
			at += d.RetryAfter
			if v := takeAt(r, key, n, at); !v.Allowed {
				t.Errorf("%v: %d units do not fit after %v: %+v", c.Algorithm, n, d.RetryAfter, v)
			}
		}
		if d := takeAt(r, key, 11, at); d.RetryAfter <= 24*time.Hour || d.Allowed {
			t.Errorf("%v, 11 of 10: %+v", c.Algorithm, d)
		}
	}
}

// A denied request counts in a sliding window if it is to, up to the limit in each
// period: a client that goes on asking stays out, one that pauses gets in.
func TestSlidingCountDenied(t *testing.T) {
	t.Parallel()
	for _, count := range []bool{false, true} {
		c := withStrict(slidingRule("a", 10, time.Minute))
		c.CountDenied = count
		lim := mustNew(t, c)
		r := lim.rules[0]
		key, admitted := r.BytesKey([]byte("client")), 0
		for s := range 300 {
			if takeAt(r, key, 1, time.Duration(s)*time.Second).Allowed {
				admitted++
			}
		}
		if want := 10; count && admitted != want || !count && admitted < 40 {
			t.Errorf("denials counted %t: %d of 300 admitted in 5 minutes", count, admitted)
		}
		if d := takeAt(r, key, 1, 300*time.Second); !count && d.Stage == StageExact != d.Allowed || count && (d.Allowed || d.Stage != StageExact) {
			t.Errorf("denials counted %t: %+v", count, d)
		}
		if d := takeAt(r, key, 10, 420*time.Second); !d.Allowed {
			t.Errorf("after a pause of two periods: %+v", d)
		}
	}
}

// What is given back fits again, first from the current period, and a reset forgets all.
func TestSlidingRefund(t *testing.T) {
	t.Parallel()
	for _, c := range []RuleConfig{slidingRule("a", 10, time.Minute), logRule("a", 10, time.Minute)} {
		lim := mustNew(t, withStrict(c))
		r := lim.rules[0]
		key := r.BytesKey([]byte("client"))
		takeAt(r, key, 6, time.Minute-time.Second)
		takeAt(r, key, 4, time.Minute)
		if d := takeAt(r, key, 1, time.Minute); d.Allowed || d.Stage != StageTable {
			t.Errorf("%v: %+v", c.Algorithm, d)
		}
		r.Refund(key, 5) // 4 of this minute and one of the last
		if d := takeAt(r, key, 6, time.Minute); d.Allowed || d.Remaining != 5 {
			t.Errorf("%v: %+v, want 5 that fit", c.Algorithm, d)
		}
		if d := takeAt(r, key, 5, time.Minute); !d.Allowed || d.Remaining != 0 {
			t.Errorf("%v: %+v", c.Algorithm, d)
		}
		r.Refund(key, 99)
		if d := r.Assured(key); d.Remaining != 10 || d.TimeToEmpty != 0 {
			t.Errorf("%v: %+v with all given back", c.Algorithm, d)
		}
		takeAt(r, key, 10, time.Minute)
		r.Reset(key)
		if d := takeAt(r, key, 9, time.Minute); !d.Allowed || d.Remaining != 1 {
			t.Errorf("%v: %+v after a reset", c.Algorithm, d)
		}
	}
}
