package sketch

import (
	"math"
	"testing"
	"time"
)

// The grain doubles with each burst of notes, and Pace chooses the least that records no more than
// the rate. It ends at maxGrain.
func TestGrain(t *testing.T) {
	t.Parallel()
	var g Grain
	g.Init(50, 10)
	for i := range 30 * 10 {
		if want := uint64(1)<<min(i/10, 24) - 1; g.Mask() != want {
			t.Fatalf("after %d notes the mask is %#x, want %#x", i, g.Mask(), want)
		}
		g.Note(1)
	}
	g.Pace(0) // those notes are over
	for _, tt := range []struct {
		passed      time.Duration
		units, want uint64
	}{
		{100 * time.Millisecond, 0, 1},
		{100 * time.Millisecond, 5, 1},
		{100 * time.Millisecond, 6, 2},
		{100 * time.Millisecond, 11, 2},
		{100 * time.Millisecond, 12, 4},
		{time.Second, 10, 1}, // a burst at most
		{time.Second, 11, 2},
		{0, 1, 1}, // one at least
		{0, 2, 2},
		{0, math.MaxUint64, maxGrain},
	} {
		g.Note(tt.units)
		g.Pace(tt.passed)
		if got := g.Mask() + 1; got != tt.want {
			t.Errorf("%d units in %v: grain %d, want %d", tt.units, tt.passed, got, tt.want)
		}
	}
}
