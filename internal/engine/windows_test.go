package engine

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Twice the limit passes around the end of a window, and no more.
func TestWindowEdge(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, withStrict(windowRule("a", 10, time.Minute)))
	r := lim.rules[0]
	key, admitted := r.BytesKey([]byte("client")), 0
	for i := range 200 {
		at := time.Minute + time.Duration(i-100)*time.Millisecond
		d := takeAt(r, key, 1, at)
		if d.Allowed {
			admitted++
		} else if want := (max(0, time.Minute-at) + time.Minute) % time.Minute; at < time.Minute && d.RetryAfter != want {
			t.Errorf("at %v: %+v, want it to retry after %v", at, d, want)
		}
	}
	if admitted != 20 {
		t.Errorf("%d admitted, want 10 in each window", admitted)
	}
	if d := r.Peek(key, 11); d.RetryAfter <= time.Hour {
		t.Errorf("11 of 10: %+v", d)
	}
}

// A denied request counts if it is to: in the table, with what the store knows, and
// where the failure policy decides.
func TestCountDenied(t *testing.T) {
	t.Parallel()
	for _, count := range []bool{false, true} {
		c := withStrict(windowRule("a", 10, time.Minute))
		c.CountDenied = count
		lim := mustNew(t, c, withStrict(windowRule("b", 100, time.Minute)))
		r := lim.rules[0]
		key := r.BytesKey([]byte("client"))
		for i, s := range []struct {
			cost      uint64
			ok, after bool // without counting denials, and with
		}{{6, true, true}, {5, false, false}, {4, true, false}, {1, false, false}} {
			d := takeAt(r, key, s.cost, time.Second)
			if want := s.ok && (!count || s.after); d.Allowed != want {
				t.Errorf("counted %t, step %d: %+v", count, i, d)
			}
			if !d.Allowed && count && d.Remaining != 0 {
				t.Errorf("step %d: %+v", i, d)
			}
		}
		if d := takeAt(r, key, 1, time.Second); d.Stage != limit.StageTable {
			t.Errorf("a full window is not known to the table: %+v", d)
		}
		if d := takeAt(r, key, 10, time.Minute); !d.Allowed {
			t.Errorf("the next window: %+v", d)
		}
	}
}

// A refund counts in the window it is made in.
func TestWindowRefund(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, withStrict(windowRule("a", 10, time.Minute)))
	r := lim.rules[0]
	key := r.BytesKey([]byte("client"))
	takeAt(r, key, 10, time.Second)
	r.Refund(key, 4)
	if d := takeAt(r, key, 5, time.Second); d.Allowed || d.Remaining != 4 {
		t.Errorf("%+v", d)
	}
	r.Reset(key)
	if d := takeAt(r, key, 9, time.Second); !d.Allowed || d.Remaining != 1 {
		t.Errorf("%+v", d)
	}
	takeAt(r, key, 3, time.Minute)
	r.refund(key, 9, time.Second) // as of a window ago, by a request that was in flight since
	if d := takeAt(r, key, 1, time.Minute); d.Remaining != 9 {
		t.Errorf("%+v, want what is left of the 3 given back", d)
	}
}

// A denial by a table that holds the window before counts nowhere, so it does not
// stand where it is to count in this one.
func TestOvertakenDenialCounts(t *testing.T) {
	t.Parallel()
	c := withStrict(windowRule("a", 10, time.Minute))
	c.CountDenied = true
	lim := mustNew(t, c)
	r := lim.rules[0]
	key := r.BytesKey([]byte("client"))
	takeAt(r, key, 10, 0)
	setTime(lim, time.Minute)
	if d := r.take(t.Context(), key, 11, time.Second, stackStripe()); d.Allowed || d.Stage != limit.StageExact {
		t.Errorf("more than the limit: %+v, want it denied and counted", d)
	}
	if d := takeAt(r, key, 1, time.Minute); d.Allowed {
		t.Errorf("after a denial that counts: %+v", d)
	}
}
