package redisstore

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
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
