package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
)

const (
	benchCallers = 64
	benchKeys    = 1000
)

// BenchmarkStore is 64 concurrent callers that each take and wait, for
// profiles. `go run ./bench redis` compares it with the usual way.
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

// BenchmarkScript is what Redis spends on one operation in a batch of benchBatch, by its
// own count, the time that it was not running included. Each is admitted and written;
// a log is full, and as many of its times end as begin.
func BenchmarkScript(b *testing.B) {
	const minute = time.Minute
	for _, a := range algorithms {
		for _, n := range []uint64{10, 100, 1000, bucket.MaxPortableLog} {
			if a != bucket.SlidingLog && n > 10 {
				break
			}
			shape, err := shapeOf(a, n, minute, n)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%v of %d", a, n), func(b *testing.B) { benchScript(b, shape) })
		}
	}
}

const benchBatch = 32 // keys

func benchScript(b *testing.B, shape bucket.Shape) {
	b.Helper()
	l := newLab(b)
	gap := uint64(shape.Period()/time.Microsecond) / shape.Limit()
	if gap == 0 {
		gap = uint64(shape.Duration(shape.Unit()) / time.Microsecond)
	}
	now := uint64(1_763_596_800_000_000)
	run := func(batches int) {
		for range batches {
			now += gap + 1
			ops := make([]*bucket.Op, benchBatch)
			for i := range ops {
				ops[i] = &bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: "fastlimit:per-ip:192.0.2." + strconv.Itoa(i), Shape: shape, Cost: shape.Unit(), Count: 1}
			}
			args := newArguments().command(clocked, "", ops, new(remote.Dating), []any{now / 1_000_000, now % 1_000_000})
			if err := l.client.Do(b.Context(), args...).Err(); err != nil {
				b.Fatal(err)
			}
		}
	}
	run(int(shape.Burst())) //nolint:gosec // until a log is full
	l.client.ConfigResetStat(b.Context())
	run(b.N)
	stats := l.client.Info(b.Context(), "commandstats").Val()
	_, stats, _ = strings.Cut(stats, "cmdstat_evalsha:")
	var calls, usec float64
	if _, err := fmt.Sscanf(stats, "calls=%f,usec=%f", &calls, &usec); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(1000*usec/calls/benchBatch, "redis-ns/op")
}
