package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/redistest"
	"github.com/redis/go-redis/v9"
)

const (
	benchCallers = 64
	benchKeys    = 1000
)

// BenchmarkExact compares, in alternating short rounds of one run (the median counts), 64 concurrent
// callers that each take and wait: through the store, and as is usual, with
// one EVALSHA of the same script per request on go-redis with its defaults.
// Its metric is how many times more the store gets done. Hot keys are over
// their limit most of the time, as the exact path sees them; charged ones
// never are, so that every take writes.
func BenchmarkExact(b *testing.B) {
	for name, rate := range map[string]uint64{"hot": 1, "charged": 1_000_000} {
		b.Run(name, func(b *testing.B) { benchExact(b, rate) })
	}
}

func benchExact(b *testing.B, rate uint64) {
	server := redistest.Start(b)
	c := patient(server.Addr)
	s := mustOpen(b, c)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr})
	b.Cleanup(func() { _ = plain.Close() })
	ops := benchOps(b, rate)
	var ours, theirs, ratios []float64
	var ourCPU, theirCPU time.Duration
	b.ResetTimer()
	rounds := max(1, b.N/benchRound)
	for range rounds {
		c0 := cpuTime(b, server)
		a := benchCall(b, func() func(int) error { return viaStore(s, ops) })
		c1 := cpuTime(b, server)
		z := benchCall(b, func() func(int) error { return viaPlain(plain, ops) })
		c2 := cpuTime(b, server)
		ours, theirs = append(ours, benchRound/a.Seconds()), append(theirs, benchRound/z.Seconds())
		ratios = append(ratios, float64(z)/float64(a))
		ourCPU, theirCPU = ourCPU+c1-c0, theirCPU+c2-c1
	}
	b.ReportMetric(median(ours), "takes/s")
	b.ReportMetric(median(theirs), "plain/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(float64(ourCPU.Microseconds())/float64(rounds*benchRound), "cpu-µs/take")
	b.ReportMetric(float64(theirCPU.Microseconds())/float64(rounds*benchRound), "cpu-µs/plain")
	st := s.Stats()
	b.ReportMetric(float64(st.Takes)/float64(st.Pipelines), "takes/pipeline")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// cpuTime is that of this process and of the server.
func cpuTime(b *testing.B, server *redistest.Server) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	d := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	for line := range strings.Lines(server.Do("INFO", "cpu")) {
		name, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			sec, err := strconv.ParseFloat(v, 64)
			if err != nil {
				b.Fatal(err)
			}
			d += time.Duration(sec * float64(time.Second))
		}
	}
	return d
}

// BenchmarkStore is the store alone, for profiles.
func BenchmarkStore(b *testing.B) {
	server := redistest.Start(b)
	for _, workers := range []int{1, 2, 4} {
		b.Run(strconv.Itoa(workers)+" workers", func(b *testing.B) {
			c := patient(server.Addr)
			c.Workers = workers
			s := mustOpen(b, c)
			ops := benchOps(b, 1)
			b.ReportAllocs()
			b.ResetTimer()
			var took time.Duration
			rounds := max(1, b.N/benchRound)
			for range rounds {
				took += benchCall(b, func() func(int) error { return viaStore(s, ops) })
			}
			b.ReportMetric(float64(rounds*benchRound)/took.Seconds(), "takes/s")
			st := s.Stats()
			b.ReportMetric(float64(st.Takes)/float64(st.Pipelines), "takes/pipeline")
		})
	}
}

const benchRound = 10_000 // takes

func benchOps(b *testing.B, rate uint64) []bucket.Op {
	b.Helper()
	shape := mustShape(b, rate, time.Second, 2*rate)
	ops := make([]bucket.Op, benchKeys)
	for i := range ops {
		ops[i] = bucket.Op{Kind: bucket.Take, Key: "rule:192.0.2." + strconv.Itoa(i), Shape: shape, Cost: shape.Unit(), Count: 1}
	}
	return ops
}

// benchCall runs benchRound takes by 64 callers.
func benchCall(b *testing.B, caller func() func(int) error) time.Duration {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range benchCallers {
		call := caller()
		wg.Go(func() {
			for i := next.Add(1); i <= benchRound; i = next.Add(1) {
				if err := call(int(i*7919) % benchKeys); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func viaStore(s *Store, ops []bucket.Op) func(int) error {
	answer := make(chan error, 1)
	done := func(_ *bucket.Op, _ bucket.Reply, err error) { answer <- err }
	return func(key int) error {
		op := ops[key]
		op.Done = done
		if err := s.Submit(&op); err != nil {
			return err
		}
		return <-answer
	}
}

func viaPlain(c *redis.Client, ops []bucket.Op) func(int) error {
	ctx := context.Background()
	return func(key int) error {
		op := &ops[key]
		return c.EvalSha(ctx, production.sha, []string{defaultPrefix + op.Key}, appendNumbers(nil, op)).Err()
	}
}
