package engine

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Around the end of a period neither a sliding window nor a log lets twice the limit pass, and a client that
// waits as long as its denial says is admitted.
func TestSlidingEdge(t *testing.T) {
	t.Parallel()
	for _, c := range []limit.RuleConfig{slidingRule("a", 10, time.Minute), logRule("a", 10, time.Minute)} {
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

// A denied request counts in a sliding window if configured, up to the limit in each period: a client that
// keeps asking stays out, one that pauses gets in.
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
		if d := takeAt(r, key, 1, 300*time.Second); !count && d.Stage == limit.StageExact != d.Allowed || count && (d.Allowed || d.Stage != limit.StageExact) {
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
	for _, c := range []limit.RuleConfig{slidingRule("a", 10, time.Minute), logRule("a", 10, time.Minute)} {
		lim := mustNew(t, withStrict(c))
		r := lim.rules[0]
		key := r.BytesKey([]byte("client"))
		takeAt(r, key, 6, time.Minute-time.Second)
		takeAt(r, key, 4, time.Minute)
		if d := takeAt(r, key, 1, time.Minute); d.Allowed || d.Stage != limit.StageTable {
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
