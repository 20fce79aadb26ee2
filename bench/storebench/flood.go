package storebench

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bucket"
)

// Flood is one client's flood among others that conform.
type Flood struct {
	Group, Store string        // of the result: "redis", "Redis"
	Timeout      time.Duration // how long a request may wait for the store
	Clients      int           // that conform
	PerSecond    float64       // requests of the one that does not; the others send as much together
	Duration     time.Duration
}

// Run sends the flood and counts what the store is asked: takes is its own count of that.
func (o Flood) Run(ctx context.Context, store bucket.Store, takes func() uint64) (results []report.Result, err error) {
	_, rule, err := Limiter(store, o.Timeout, fastlimit.RuleConfig{Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 200})
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
			paced(ctx, o.PerSecond/floodCallers, func(int) { attacker.take(ctx, rule, key) })
		})
	}
	wg.Go(func() {
		paced(ctx, o.PerSecond, func(i int) {
			n := i % o.Clients
			others.take(ctx, rule, rule.AddrKey(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})))
		})
	})
	wg.Wait()
	took := time.Since(start).Seconds()
	if err := context.Cause(ctx); err != context.DeadlineExceeded { //nolint:errorlint // that very one
		return nil, err
	}
	asked := float64(takes())
	requests := attacker.requests.Load() + others.requests.Load()
	falseDenials := others.denied.Load()
	return []report.Result{{
		Group: o.Group, Workload: "one flood among conforming clients", Limiter: "fastlimit",
		Setup: fmt.Sprintf("exact buckets in %s; 100/s, burst 200; %.0f requests/s of one client among as many of %d others",
			o.Store, float64(attacker.requests.Load())/took, o.Clients),
		Keys: int64(o.Clients) + 1, Requests: requests,
		StorePerRequest: new(asked / float64(requests)), StorePerSecond: new(asked / took), FalseDenials: &falseDenials,
		Denied: new(float64(attacker.denied.Load()+falseDenials) / float64(requests)),
	}}, nil
}

// floodCallers keep the flood going while some of them wait for the store.
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
