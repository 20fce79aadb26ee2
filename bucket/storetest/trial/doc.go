// Package trial puts stores to tests that need more than one operation at a time, or more
// than the conformance suite next door: random operations beside the model that every
// store has to be ([step.Apply]), linearizability under many callers, and load under
// faults with an audit of what was charged. A test of a store opens it, gives its
// hooks and breaks what it runs on; what is right is said here, once for all stores.
package trial

import (
	"context"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// Algorithms are those that stores run. A token bucket is a leaky bucket there.
var Algorithms = func() (all []bucket.Algorithm) {
	for a := range bucket.NumAlgorithms {
		if step.Runs(a) {
			all = append(all, a)
		}
	}
	return all
}()

// ShapeOf is a limit of an algorithm; only a leaky bucket has a burst.
func ShapeOf(a bucket.Algorithm, n uint64, per time.Duration, burst uint64) (bucket.Shape, error) {
	//exhaustive:enforce
	switch a {
	case bucket.LeakyBucket, bucket.TokenBucket: // below
	case bucket.FixedWindow:
		return bucket.NewWindow(n, per)
	case bucket.SlidingWindow:
		return bucket.NewSlidingWindow(n, per)
	case bucket.SlidingLog:
		return bucket.NewSlidingLog(n, per)
	}
	return bucket.NewShape(n, per, burst)
}

// MustShape is [ShapeOf] for a limit that is known to be valid.
func MustShape(t testing.TB, a bucket.Algorithm, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	s, err := ShapeOf(a, n, per, burst)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// CloseLater closes a store when the test ends.
func CloseLater(t testing.TB, s bucket.Store) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
