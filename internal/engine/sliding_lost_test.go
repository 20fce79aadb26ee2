package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// losing carries operations out and answers them later, with an error or as the store did.
type losing struct {
	bucket.Store

	after time.Duration
	err   error
}

func (s *losing) Submit(op *bucket.Op) error {
	after, err := s.after, s.err
	if after == 0 {
		return s.Store.Submit(op)
	}
	own := *op
	own.Done = func(_ *bucket.Op, r bucket.Reply, _ error) {
		time.AfterFunc(after, func() { op.Done(op, r, err) })
	}
	return s.Store.Submit(&own)
}

// A period of a sliding window ends while an answer is on its way, which is then lost or late.
// The store has counted the unit in the period before and the node in the next. It is one.
func TestLostAnswerAcrossPeriodsCountsOnce(t *testing.T) {
	for name, err := range map[string]error{"lost": errStore, "late": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &losing{Store: newSlowStore(t)}
				lim := sharedLimiter(t, s, withStrict(slidingRule("a", 4, 4*time.Second)))
				r := lim.rules[0]
				start := time.Now()
				r.Take(t.Context(), r.BytesKey([]byte("other")), 1) // the store says what its time is
				time.Sleep(time.Until(start.Add(4*time.Second - lim.plan.StoreTimeout/2)))
				s.after, s.err = 2*lim.plan.StoreTimeout, err
				key := r.BytesKey([]byte("x"))
				if d := r.Take(t.Context(), key, 1); !d.Allowed || !d.Degraded {
					t.Fatalf("the first: %+v", d)
				}
				time.Sleep(2 * lim.plan.StoreTimeout)
				s.after = 0
				for n := 2; n <= 4; n++ {
					if d := r.Take(t.Context(), key, 1); !d.Allowed {
						t.Errorf("number %d of 4: %+v", n, d)
					}
				}
				if d := r.Take(t.Context(), key, 1); d.Allowed {
					t.Errorf("number 5 of 4: %+v", d)
				}
			})
		})
	}
}
