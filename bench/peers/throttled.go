package peers

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// Throttled is github.com/throttled/throttled/v2: GCRA over its memory store
// of 65,536 keys, least recently used ones evicted, as in its README.
func Throttled() inproc.Contender {
	return inproc.Contender{
		Name:  "throttled",
		Setup: "throttled/v2 GCRA, memstore of 65536 keys (LRU) as in its README, MaxBurst B-1; strings of address bytes; told the time through SetTimeNow",
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			store, err := memstore.New(65536)
			if err != nil {
				return nil, err
			}
			l := &throttledLimiter{}
			store.SetTimeNow(func() time.Time { return inproc.Wall(time.Duration(l.now.Load())) })
			l.gcra, err = throttled.NewGCRARateLimiterCtx(throttled.WrapStoreWithContext(store), throttled.RateQuota{
				MaxRate:  throttled.PerDuration(int(r.Rate.N), r.Rate.Per),
				MaxBurst: int(r.Burst) - 1,
			})
			return l, err
		},
	}
}

// throttledLimiter tells its store the time of the decision. With several
// cores that is the time of one of them, which is as good.
type throttledLimiter struct {
	gcra *throttled.GCRARateLimiterCtx
	now  atomic.Int64
}

func (l *throttledLimiter) Allow(addr netip.Addr, now time.Duration) bool {
	if l.now.Load() != int64(now) { // where time stands still, share the line
		l.now.Store(int64(now))
	}
	limited, _, err := l.gcra.RateLimitCtx(context.Background(), name(addr), 1)
	return !limited && err == nil
}
