package engine

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// The store is not asked about requests of several units either once the table knows
// that they do not fit, although one unit would: then a log is not full.
func TestTableKnowsSeveralUnits(t *testing.T) {
	for _, a := range []limit.Algorithm{limit.LeakyBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
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
				if d := r.Take(t.Context(), key, 2); d.Allowed || d.Stage != limit.StageTable || d.RetryAfter <= 0 {
					t.Fatalf("%v: %+v", a, d)
				}
			}
			if n := s.takes.Load() - asked; n != 0 {
				t.Errorf("%v: the store was asked %d times", a, n)
			}
			// What it is told is long enough for the store too.
			d := r.Take(t.Context(), key, 2)
			time.Sleep(d.RetryAfter + limit.DefaultStoreTimeout) // by which a window may lead that of the store
			if v := r.Take(t.Context(), key, 2); !v.Allowed {
				t.Errorf("%v: %+v after %v", a, v, d.RetryAfter)
			}
		})
	}
}

// A peek says what is left as long as the exact bucket, window or log holds anything,
// also when filter and sketch would not ask it.
func TestPeekKnowsWhatIsHeld(t *testing.T) {
	t.Parallel()
	for _, a := range []limit.Algorithm{limit.LeakyBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
		c := slidingRule("a", 20, time.Minute)
		c.Algorithm = a
		lim := mustNew(t, c)
		r, rng := lim.rules[0], rand.New(rand.NewPCG(1, 2))
		key, at, held, partly := r.BytesKey([]byte("x")), time.Hour, 0, 0
		for range 5000 {
			at += time.Duration(rng.ExpFloat64() * float64(2*time.Second))
			if rng.IntN(50) == 0 {
				at += 30 * time.Second
			}
			takeAt(r, key, 1+rng.Uint64N(3), at)
			exact, peeked := r.Assured(key), r.Peek(key, 1)
			if exact.TimeToEmpty == 0 {
				continue
			}
			held++
			if exact.Remaining > 0 {
				partly++
			}
			if peeked.Remaining != exact.Remaining || peeked.TimeToEmpty != exact.TimeToEmpty || peeked.Allowed != (exact.Remaining > 0) {
				t.Fatalf("%v at %v: peeked %+v of %+v", a, at, peeked, exact)
			}
		}
		if held < 500 || partly < 100 {
			t.Errorf("%v: %d times something was held, %d times not all", a, held, partly)
		}
	}
}
