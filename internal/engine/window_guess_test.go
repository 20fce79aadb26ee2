package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// A node whose clock is ahead of the store's counts in windows that have not begun there
// as long as it has not heard of the store. Its table does not deny anybody until those
// begin, once it has.
func TestWindowsOfAWrongGuess(t *testing.T) {
	for _, a := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlowStore(t) // whose clock begins in 1970
			away := s.outage()
			c := withStrict(slidingRule("a", 5, time.Second))
			c.Algorithm = a
			r := sharedLimiter(t, s, c).rules[0]
			x, y, z := r.BytesKey([]byte("x")), r.BytesKey([]byte("y")), r.BytesKey([]byte("z"))
			away.Store(true)
			for range 6 {
				r.Take(t.Context(), x, 1)
				r.Take(t.Context(), z, 1)
			}
			if d := r.Take(t.Context(), x, 1); d.Allowed || d.Stage != limit.StageTable {
				t.Errorf("%v, while the store is away: %+v", a, d)
			}
			away.Store(false)
			r.Take(t.Context(), y, 1) // of which the store says what its time is
			time.Sleep(2 * time.Second)
			if d := r.Peek(z, 1); !d.Allowed {
				t.Errorf("%v, two windows later: peeked %+v", a, d)
			}
			for i := range 6 {
				if d := r.Take(t.Context(), x, 1); d.Allowed != (i < 5) {
					t.Errorf("%v, two windows later, request %d: %+v", a, i, d)
				}
			}
			away.Store(true)
			if d := r.Take(t.Context(), z, 1); !d.Allowed || !d.Degraded {
				t.Errorf("%v, with the store away again: %+v", a, d)
			}
		})
	}
}
