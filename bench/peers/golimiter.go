package peers

import (
	"context"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

// GoLimiter is github.com/sethvargo/go-limiter with its memory store, as in
// its README. It refills a client's tokens at once when an interval ends, so
// the nearest to a rate and a burst is the burst in each interval of B/r.
func GoLimiter() inproc.Contender {
	return inproc.Contender{
		Name:     "go-limiter",
		Setup:    "sethvargo/go-limiter memorystore, Tokens B per Interval B/r, other settings default; strings of address bytes; reads the clock itself",
		OwnClock: true,
		New: func(r oracle.Rule) (inproc.Limiter, error) {
			store, err := memorystore.New(&memorystore.Config{Tokens: r.Burst, Interval: r.Window()})
			return goLimiter{store}, err
		},
	}
}

type goLimiter struct{ store limiter.Store }

func (l goLimiter) Allow(addr netip.Addr, _ time.Duration) bool {
	_, _, _, ok, err := l.store.Take(context.Background(), name(addr))
	return ok && err == nil
}

func (l goLimiter) Close() error { return l.store.Close(context.Background()) }
