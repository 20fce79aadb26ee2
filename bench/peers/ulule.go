package peers

import (
	"context"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// Ulule is github.com/ulule/limiter/v3 with its memory store: a counter for
// each client that is reset when its period ends. The nearest to a rate and a
// burst is the burst in each period of B/r.
func Ulule() inproc.Contender {
	return inproc.Contender{
		Name:     "ulule",
		Setup:    "ulule/limiter v3 memory store, Limit B per Period B/r, expired keys cleaned up every 30 s (default); strings of address bytes; reads the clock itself",
		OwnClock: true,
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			rate := limiter.Rate{Period: r.Window(), Limit: int64(r.Burst)}
			return ulule{limiter.New(memory.NewStore(), rate)}, nil
		},
	}
}

type ulule struct{ limiter *limiter.Limiter }

func (l ulule) Allow(addr netip.Addr, _ time.Duration) bool {
	c, err := l.limiter.Get(context.Background(), name(addr))
	return err == nil && !c.Reached
}
