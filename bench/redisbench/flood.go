package redisbench

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/report"
)

// flood sends one client's flood among others that conform and counts what
// Redis is asked.
func (o Options) flood(ctx context.Context, addr string) (results []report.Result, err error) {
	const patience = 5 * time.Millisecond // the default of a configuration
	store, err := open(ctx, addr, patience)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := closeStore(store); err == nil {
			err = e
		}
	}()
	_, rule, err := limiter(store, patience, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	start := time.Now()
	var attacker, others tally
	var wg sync.WaitGroup
	// Several callers: a single one would send nothing while it waits for Redis.
	for range floodCallers {
		wg.Go(func() {
			key := rule.AddrKey(netip.AddrFrom4([4]byte{192, 0, 2, 1}))
			paced(ctx, o.Flood/floodCallers, func(int) { attacker.take(ctx, rule, key) })
		})
	}
	wg.Go(func() {
		paced(ctx, o.Flood, func(i int) {
			n := i % o.Clients
			others.take(ctx, rule, rule.AddrKey(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})))
		})
	})
	wg.Wait()
	took := time.Since(start).Seconds()
	if err := context.Cause(ctx); err != context.DeadlineExceeded { //nolint:errorlint // that very one
		return nil, err
	}
	takes := float64(store.Stats().Takes)
	requests := attacker.requests.Load() + others.requests.Load()
	falseDenials := others.denied.Load()
	return []report.Result{{
		Group: "redis", Workload: "one flood among conforming clients", Limiter: "fastlimit",
		Setup: fmt.Sprintf("exact buckets in Redis; 100/s, burst 200; %.0f requests/s of one client among as many of %d others",
			float64(attacker.requests.Load())/took, o.Clients),
		Keys: int64(o.Clients) + 1, Requests: requests,
		StorePerRequest: new(takes / float64(requests)), StorePerSecond: new(takes / took), FalseDenials: &falseDenials,
		Denied: new(float64(attacker.denied.Load()+falseDenials) / float64(requests)),
	}}, nil
}

// floodCallers keep the flood going while some of them wait for Redis.
const floodCallers = 8

// tally counts requests. Safe for concurrent use.
type tally struct{ requests, denied atomic.Int64 }

func (t *tally) take(ctx context.Context, rule *fastlimit.Rule, key fastlimit.Key) {
	t.requests.Add(1)
	if !rule.Take(ctx, key, 1).Allowed {
		t.denied.Add(1)
	}
}

// paced calls f at a rate per second until ctx ends, in bursts of what became
// due while it slept.
func paced(ctx context.Context, rate float64, f func(i int)) {
	start := time.Now()
	for i := 0; ; {
		for due := int(time.Since(start).Seconds() * rate); i < due; i++ {
			if ctx.Err() != nil {
				return
			}
			f(i)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}
