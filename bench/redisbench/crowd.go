//go:build linux

package redisbench

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
)

const (
	crowdCallers = 24 // a third for each failure policy
	crowdKeys    = 32 // of each caller
	// crowdPause is between two requests of a caller. It keeps the cores idle
	// most of the time, so that a wait is due to Redis and not to the crowd.
	crowdPause = time.Millisecond
)

// crowd is a number of callers that need exact checks. Their clients are all far
// below their limits, so that every denial is one of a failure policy.
type crowd struct {
	callers   []caller
	recording atomic.Bool   // requests count only between the stroke and recovery
	stop      chan struct{} // closed once, by end
	stopOnce  sync.Once
	wg        sync.WaitGroup
}

// caller is one of them. Only its goroutine touches its figures until it ends.
type caller struct {
	rule               *fastlimit.Rule
	keys               []fastlimit.Key
	waits              *hdrhistogram.Histogram // ns
	lags               *hdrhistogram.Histogram // ns by which a pause is longer than it should be
	requests, denied   int64
	degraded, admitted int64 // decided without Redis, and admitted of those
}

// newCrowd has one limiter with a rule for each failure policy. The rules are
// strict, so that every request asks Redis.
func newCrowd(store *redisstore.Store, timeout time.Duration) (*crowd, error) {
	cfg := fastlimit.Config{Store: store, StoreTimeout: timeout}
	for _, p := range policies {
		cfg.Rules = append(cfg.Rules, fastlimit.RuleConfig{
			Name: p.String(), Rate: fastlimit.Rate{N: 100, Per: time.Second}, Burst: 1_000_000, Strict: true, OnFailure: p,
		})
	}
	lim, err := fastlimit.New(cfg)
	if err != nil {
		return nil, err
	}
	c := &crowd{callers: make([]caller, crowdCallers), stop: make(chan struct{})}
	for i := range c.callers {
		rule := lim.Rules()[i%len(policies)]
		who := caller{rule: rule, waits: load.NewHistogram(), lags: load.NewHistogram()}
		for k := range crowdKeys {
			who.keys = append(who.keys, rule.BytesKey(binary.BigEndian.AppendUint32(nil, uint32(i*crowdKeys+k))))
		}
		c.callers[i] = who
	}
	return c, nil
}

// start lets every caller ask until the end, in a goroutine of its own.
func (c *crowd) start(ctx context.Context) {
	for i := range c.callers {
		who := &c.callers[i]
		c.wg.Go(func() {
			for n := 0; ; n++ {
				paused := time.Now()
				select {
				case <-c.stop:
					return
				case <-time.After(crowdPause):
					recording := c.recording.Load()
					if recording {
						load.Record(who.lags, time.Since(paused)-crowdPause)
					}
					who.ask(ctx, n, recording)
				}
			}
		})
	}
}

// end stops all callers. Calls after the first do nothing.
func (c *crowd) end() {
	c.stopOnce.Do(func() { close(c.stop) })
	c.wg.Wait()
}

// ask takes once and notes how long that took, if it is to count.
func (w *caller) ask(ctx context.Context, n int, recording bool) {
	start := time.Now()
	d := w.rule.Take(ctx, w.keys[n%len(w.keys)], 1)
	if !recording {
		return
	}
	load.Record(w.waits, time.Since(start))
	w.requests++
	if !d.Allowed {
		w.denied++
	}
	if d.Degraded {
		w.degraded++
		if d.Allowed {
			w.admitted++
		}
	}
}

// result sums up what callers that have ended recorded.
func (c *crowd) result() report.Result {
	waits, lags := load.NewHistogram(), load.NewHistogram()
	var requests, denied, degraded int64
	decided, admitted := map[string]int64{}, map[string]int64{}
	for i := range c.callers {
		w := &c.callers[i]
		waits.Merge(w.waits)
		lags.Merge(w.lags)
		requests, denied, degraded = requests+w.requests, denied+w.denied, degraded+w.degraded
		decided[w.rule.Name()] += w.degraded
		admitted[w.rule.Name()] += w.admitted
	}
	share := func(n, of int64) *float64 { return new(float64(n) / float64(max(1, of))) }
	res := report.Result{
		Requests: requests, Denied: share(denied, requests), Degraded: share(degraded, requests),
		LatencyMicros: report.Latencies(waits),
		LagMicros:     map[string]float64{"p99.9": report.Micros(lags, 99.9), "max": report.Micros(lags, 100)},
	}
	for policy, n := range decided {
		if n == 0 {
			continue
		}
		if res.DegradedAdmitted == nil {
			res.DegradedAdmitted = map[string]float64{}
		}
		res.DegradedAdmitted[policy] = *share(admitted[policy], n)
	}
	return res
}

// policies are the failure policies, by value.
var policies = [...]fastlimit.OnFailure{fastlimit.FailLocal, fastlimit.FailOpen, fastlimit.FailClosed}
