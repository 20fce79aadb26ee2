package redisbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
)

// stage is what was measured while one client flooded at one rate.
type stage struct {
	seconds         float64
	requests, flood int64 // answered, of all and of the client that floods
	denied          int64 // of them
	clients         int64 // that conform
	others          *load.Outcome
	counters
}

// counters are those of the server and of its Redis.
// They only grow: a stage is the difference of two readings.
type counters struct {
	takes         int64         // as the store counts them
	reads, calls  int64         // buckets and EVALSHA, as Redis counts them
	server, redis time.Duration // CPU time
}

// plus adds the others n times; -1 leaves what they grew by.
func (c counters) plus(o counters, n int64) counters {
	return counters{
		c.takes + n*o.takes, c.reads + n*o.reads, c.calls + n*o.calls,
		c.server + time.Duration(n)*o.server, c.redis + time.Duration(n)*o.redis,
	}
}

// add joins another stage, for the result over all of them.
func (s *stage) add(t *stage) {
	s.seconds += t.seconds
	s.requests, s.flood, s.denied, s.clients = s.requests+t.requests, s.flood+t.flood, s.denied+t.denied, max(s.clients, t.clients)
	if s.others == nil {
		s.others = load.NewOutcome(time.Duration(len(t.others.Intervals)) * load.Step)
	}
	s.others.Add(t.others)
	s.counters = s.plus(t.counters, 1)
}

// stage floods at a rate, 0 for as fast as it goes, among the others.
func (o HTTPOptions) stage(ctx context.Context, e *edge, rate float64, attacker netip.Addr) (*stage, error) {
	before, err := e.count(ctx)
	if err != nil {
		return &stage{}, err
	}
	var visits atomic.Int64
	others := load.OpenConfig{
		Target: e.target.As(httpHeader, func() netip.Addr { return o.visitor(visits.Add(1)) }),
		Rate:   o.Others, Duration: o.Duration, Conns: httpConns,
	}
	s := new(stage)
	var counts load.Counts
	var floodErr, othersErr error
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() { counts, floodErr = o.flood(ctx, e.target, rate, attacker) })
	wg.Go(func() { s.others, othersErr = load.Open(ctx, others) })
	wg.Wait()
	s.seconds = time.Since(start).Seconds()
	if err := errors.Join(floodErr, othersErr); s.others == nil {
		return &stage{}, err
	}
	s.flood, s.requests = counts.Total(), counts.Total()+s.others.Total()
	s.denied = counts.Denied() + s.others.Denied()
	s.clients = min(int64(o.Clients), visits.Load())
	after, err := e.count(ctx)
	if err == nil {
		s.counters = after.plus(before, -1)
	}
	return s, errors.Join(floodErr, othersErr, err)
}

// visitor returns the client of the nth request: nine in ten come from all clients
// in turn, the tenth from one of 500 that come often, though well below their
// limit.
func (o HTTPOptions) visitor(n int64) netip.Addr {
	i := n % int64(o.Clients)
	if n%10 == 0 {
		i = n / 10 % min(int64(o.Clients), 500)
	}
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// flood sends the requests of one client.
func (o HTTPOptions) flood(ctx context.Context, target load.Target, rate float64, client netip.Addr) (load.Counts, error) {
	target = target.As(httpHeader, func() netip.Addr { return client })
	if rate > 0 {
		out, err := load.Open(ctx, load.OpenConfig{Target: target, Rate: rate, Duration: o.Duration, Conns: httpConns})
		if out == nil {
			return load.Counts{}, err
		}
		return out.Counts, err
	}
	loop, err := load.DialClosed(ctx, target, httpConns, nil)
	if err != nil {
		return load.Counts{}, err
	}
	defer loop.Close()
	timed, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	counts, err := loop.Run(timed, 1<<40)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	return counts, err
}

// result has latencies of the clients that conform; what the flooding client waits
// for is of no interest.
func (o HTTPOptions) result(workload string, s *stage) report.Result {
	n := float64(s.requests)
	per := func(v float64) *float64 { v /= n; return &v }
	rate := func(v float64) *float64 { v /= s.seconds; return &v }
	falseDenials := s.others.Denied()
	res := httpbench.OpenResult(report.Result{
		Group: "redis-http", Workload: workload, Limiter: "fastlimit",
		Setup: fmt.Sprintf("fastlimit serve, buckets in Redis; %d/s, burst %d; %d clients that conform, %.0f/s together; latencies are theirs; Redis counts %d EVALSHA",
			httpRate, httpBurst, s.clients, float64(s.others.Total())/s.seconds, s.calls),
	}, s.others)
	res.Keys, res.Requests, res.PerSecond, res.Series = s.clients+1, s.requests, rate(n), nil
	res.Denied, res.FalseDenials = per(float64(s.denied)), &falseDenials
	res.FloodPerSecond = rate(float64(s.flood))
	res.StorePerRequest, res.StorePerSecond = per(float64(s.takes)), rate(float64(s.takes))
	res.StoreReads = per(float64(s.reads))
	res.CPUMicros, res.StoreCPUMicros = per(s.server.Seconds()*1e6), per(s.redis.Seconds()*1e6)
	return res
}

// count reads all counters. Redis counts a key that MGET reads as a hit or a
// miss, which nothing else does here.
func (e *edge) count(ctx context.Context) (c counters, err error) {
	stats, err := e.client.Info(ctx, "all").Result()
	if err != nil {
		return c, fmt.Errorf("bench: %w", err)
	}
	c.reads = field(stats, `keyspace_hits:(\d+)`) + field(stats, `keyspace_misses:(\d+)`)
	c.calls = field(stats, `cmdstat_evalsha:calls=(\d+)`)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.metrics, http.NoBody)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, fmt.Errorf("bench: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return c, fmt.Errorf("bench: %w", err)
	}
	const takes = `fastlimit_redis_operations_total\{operation="take"\} (\d+)`
	if c.takes = field(string(body), takes); c.takes == 0 && !regexp.MustCompile(takes).Match(body) {
		return c, fmt.Errorf("bench: %s does not count takes", e.metrics)
	}
	if c.server, err = e.server.CPU(); err == nil {
		c.redis, err = e.redis.CPU()
	}
	return c, err
}

// field returns the number that the expression finds in the text, else 0.
func field(text, expression string) int64 {
	m := regexp.MustCompile(expression).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(m[1], 10, 64) // digits
	return n
}
