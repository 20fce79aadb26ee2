package server

import (
	"maps"
	"runtime/metrics"
	"testing"
)

// A second counts as overloaded if more of something ran short in it.
func TestOverloadedSeconds(t *testing.T) {
	t.Parallel()
	var o overload
	for _, step := range []struct{ refused, lost, wantConnections, wantLogs uint64 }{
		{0, 0, 0, 0}, {5, 0, 1, 0}, {5, 0, 1, 0}, {6, 3, 2, 1}, {6, 4, 2, 2}, {6, 4, 2, 2},
	} {
		o.endSecond(step.refused, step.lost)
		got := o.stats()
		delete(got, "cpu") // of this process
		if want := map[string]uint64{"connections": step.wantConnections, "logs": step.wantLogs}; !maps.Equal(got, want) {
			t.Errorf("%+v: got %v", step, got)
		}
	}
}

// Goroutines have waited too long if more than one of a hundred did, of at least a hundred.
func TestLateGoroutines(t *testing.T) {
	t.Parallel()
	var d delays
	h := &metrics.Float64Histogram{Buckets: []float64{0, 0.005, 0.01, 1}, Counts: make([]uint64, 3)}
	for i, step := range []struct {
		short, below, long uint64
		want               bool
	}{
		{1000, 0, 1000, false}, // before the first call
		{1000, 0, 0, false},
		{989, 0, 11, true},
		{990, 0, 10, false},
		{0, 1000, 0, false},
		{0, 0, 99, false},
		{0, 0, 100, true},
	} {
		h.Counts[0] += step.short
		h.Counts[1] += step.below
		h.Counts[2] += step.long
		if got := d.late(h); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if readDelays() == nil {
		t.Error("this Go does not tell how long goroutines wait: the name of the metric has changed")
	}
}
