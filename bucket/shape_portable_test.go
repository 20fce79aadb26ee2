package bucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

func mustShape(t *testing.T, n uint64, per time.Duration, burst uint64) bucket.Shape {
	t.Helper()
	s, err := bucket.NewShape(n, per, burst)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithSlack(t *testing.T) {
	t.Parallel()
	s := mustShape(t, 3, time.Second, 5) // 3 ticks per µs, a unit is 10^6
	for _, tt := range []struct {
		slack time.Duration
		want  uint64
	}{
		{0, 5_000_000},
		{-time.Second, 5_000_000},
		{1, 5_000_003}, // rounded up to 1 µs
		{time.Microsecond, 5_000_003},
		{5 * time.Millisecond, 5_015_000},
		{math.MaxInt64, 5_000_000 + 3*(math.MaxInt64/1000+1)},
	} {
		w := s.WithSlack(tt.slack)
		if got := w.Limit(); got != tt.want {
			t.Errorf("WithSlack(%v).Limit() = %d, want %d", tt.slack, got, tt.want)
		}
		if w.Unit() != s.Unit() || w.Grace() != s.Grace() || w.PerMicro() != s.PerMicro() || w.Burst() != s.Burst() {
			t.Errorf("WithSlack(%v) changed more than the limit", tt.slack)
		}
	}
	fast := mustShape(t, bucket.MaxRate, time.Second, 1)
	if w := fast.WithSlack(math.MaxInt64); w.Limit() != 1<<60 {
		t.Errorf("Limit() = %d, want it to saturate at 2^60", w.Limit())
	}
	if s.Limit() != 5_000_000 {
		t.Error("WithSlack changed its receiver")
	}
}

func TestPortable(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour // one unit is 86,400,000,000 ticks
	for _, tt := range []struct {
		burst uint64
		want  bool
	}{
		{1, true},
		{bucket.MaxPortable / 86_400_000_000, true},
		{bucket.MaxPortable/86_400_000_000 + 1, false},
	} {
		s := mustShape(t, 1, day, tt.burst)
		if got := s.Portable(); got != tt.want {
			t.Errorf("1/d burst %d: Portable() = %v, want %v", tt.burst, got, tt.want)
		}
	}
}
