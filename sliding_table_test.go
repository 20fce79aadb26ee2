package fastlimit

import (
	"testing"
	"testing/synctest"
	"time"
)

// The store is not asked about requests of several units either once the table knows
// that they do not fit, although one unit would: then a log is not full.
func TestTableKnowsSeveralUnits(t *testing.T) {
	for _, a := range []Algorithm{LeakyBucket, FixedWindow, SlidingWindow, SlidingLog} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlowStore(t)
			c := withStrict(slidingRule("a", 5, time.Minute))
			c.Algorithm = a
			r := sharedLimiter(t, s, c).rules[0]
			key := r.BytesKey([]byte("x"))
			for range 2 {
				r.Take(t.Context(), key, 2)
			}
			r.Take(t.Context(), key, 2) // whoever counts less finely may ask once
			asked := s.takes.Load()
			for range 100 {
				time.Sleep(time.Millisecond)
				if d := r.Take(t.Context(), key, 2); d.Allowed || d.Stage != StageTable || d.RetryAfter <= 0 {
					t.Fatalf("%v: %+v", a, d)
				}
			}
			if n := s.takes.Load() - asked; n != 0 {
				t.Errorf("%v: the store was asked %d times", a, n)
			}
			// What it is told is long enough for the store too.
			d := r.Take(t.Context(), key, 2)
			time.Sleep(d.RetryAfter + DefaultStoreTimeout) // by which a window may lead that of the store
			if v := r.Take(t.Context(), key, 2); !v.Allowed {
				t.Errorf("%v: %+v after %v", a, v, d.RetryAfter)
			}
		})
	}
}
