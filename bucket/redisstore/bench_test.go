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
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
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

// BenchmarkScript is the CPU that Redis spends on one operation in a batch of
// benchBatch, by its own count. Where they are admitted each is written; a log is full,
// and one of its times ends for each that begins.
func BenchmarkScript(b *testing.B) {
	for _, a := range trial.Algorithms {
		for _, n := range []uint64{10, 100, 1000, bucket.MaxPortableLog} {
			if a != bucket.SlidingLog && n > 10 {
				break
			}
			shape, err := trial.ShapeOf(a, n, time.Minute, n)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%v of %d, admitted", a, n), func(b *testing.B) { benchScript(b, shape, true) })
			b.Run(fmt.Sprintf("%v of %d, denied", a, n), func(b *testing.B) { benchScript(b, shape, false) })
		}
	}
}

const benchBatch = 32 // keys

func benchScript(b *testing.B, shape bucket.Shape, admitted bool) {
	b.Helper()
	l := newLab(b)
	now, gap := uint64(1_763_596_800_000_000), (uint64(time.Minute/time.Microsecond)+shape.Burst()-1)/shape.Burst()
	log := step.State{Algorithm: bucket.SlidingLog}
	for i := range shape.Burst() {
		log.Log += step.NewTimes(now - (shape.Burst()-1-i)*gap)
	}
	ops := make([]*bucket.Op, benchBatch)
	for i := range ops {
		ops[i] = &bucket.Op{Algorithm: shape.Algorithm(), Kind: bucket.Take, Key: "fastlimit:per-ip:192.0.2." + strconv.Itoa(i), Shape: shape, Cost: shape.Unit(), Count: 1}
		if shape.Logged() {
			l.client.Set(b.Context(), ops[i].Key, encodeState(log), 0)
		}
	}
	granted, before := uint64(0), cpuOf(b, l.client)
	for range b.N {
		if admitted {
			now += gap
		}
		args := newArguments().command(clocked, "", ops, new(remote.Dating), []any{now / 1_000_000, now % 1_000_000})
		reply, err := l.client.Do(b.Context(), args...).Slice()
		a, ok := parseAnswer(reply, benchBatch)
		if err != nil || !ok {
			b.Fatalf("%v, %v", reply, err)
		}
		for i := range ops {
			r, _ := a.next(i)
			granted += r.Granted
		}
	}
	if all := uint64(b.N) * benchBatch; admitted && granted < all*9/10 || !admitted && granted > benchBatch*shape.Burst() {
		b.Errorf("%d of %d admitted", granted, all)
	}
	b.ReportMetric(1e9*(cpuOf(b, l.client)-before)/float64(b.N)/benchBatch, "redis-ns/op")
}

// cpuOf is the seconds that the server has computed.
func cpuOf(b *testing.B, c *redis.Client) (seconds float64) {
	b.Helper()
	info := c.Info(b.Context(), "cpu").Val()
	for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
		var s float64
		_, value, _ := strings.Cut(info, name)
		if _, err := fmt.Sscanf(value, "%f", &s); err != nil {
			b.Fatal(err)
		}
		seconds += s
	}
	return seconds
}
