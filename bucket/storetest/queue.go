package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// An operation of an unknown algorithm is refused, whatever its kind, and changes neither
// the bucket nor the operations batched with it.
func testUnknownAlgorithm(t *testing.T, s *suite) {
	if !s.store.Runs(bucket.LeakyBucket) || s.store.Runs(255) {
		t.Error("Runs: want the leaky bucket, and not algorithm 255")
	}
	op := take(shape(t, 10, time.Second, 3), "a", 1, 2)
	s.want(op, bucket.Reply{Granted: 2, Level: 2 * u})
	for kind := range bucket.NumKinds {
		unknown := with(op, kind)
		unknown.Algorithm = 255
		got := s.stalled(func() {}, unknown, with(op, bucket.Peek))
		if !errors.Is(got[0].err, bucket.ErrAlgorithm) || got[0].reply != (bucket.Reply{}) {
			t.Errorf("kind %d: %+v, want ErrAlgorithm", kind, got[0])
		}
		if want := (bucket.Reply{Granted: 1, Level: 2 * u}); got[1].err != nil || got[1].reply != want {
			t.Errorf("kind %d: a peek beside it: %+v, want %+v", kind, got[1], want)
		}
	}
}

func testConcurrent(t *testing.T, s *suite) {
	const callers, each, burst = 16, 50, 300
	op := take(shape(t, 10, time.Second, burst), "a", 1, 1)
	var mu sync.Mutex
	var granted uint64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				r, err := Do(s.store, op)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				granted += r.Granted
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted != burst {
		t.Errorf("%d granted of %d, want %d", granted, callers*each, burst)
	}
}

// Close completes what is queued; after that, Submit refuses.
func testClose(t *testing.T, s *suite) {
	const ops = 100
	sh := shape(t, 10, time.Second, ops)
	var mu sync.Mutex
	calls := make(map[*bucket.Op]int)
	for range ops {
		op := take(sh, "a", 1, 1)
		op.Done = func(op *bucket.Op, r bucket.Reply, err error) {
			mu.Lock()
			defer mu.Unlock()
			calls[op]++
			if err != nil || r.Granted != 1 {
				t.Errorf("Done(%+v, %v)", r, err)
			}
		}
		if err := s.store.Submit(&op); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(calls) != ops {
		t.Errorf("Done was called for %d operations, want %d", len(calls), ops)
	}
	for _, n := range calls {
		if n != 1 {
			t.Errorf("Done was called %d times", n)
		}
	}
	op := take(sh, "a", 1, 1)
	if err := s.store.Submit(&op); err != bucket.ErrAway { //nolint:errorlint // as is
		t.Errorf("Submit after Close: %v, want ErrAway", err)
	}
	if err := s.store.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
