package remote

import (
	"strings"
	"testing"
	"time"
)

const tooFar = "memory is too far away for memory.timeout"

// The shortest round trip of two windows counts; a few slow answers, and what
// failed, say nothing; the warning comes once until Redis was near again.
func TestDistance(t *testing.T) {
	t.Parallel()
	l := new(logs)
	c := testConfig(l)
	s := &Store{config: c}
	d := &s.distance
	d.config = &c
	start := time.Now()
	for i, step := range []struct {
		at       time.Duration
		ms       float64
		want     float64
		warnings int
	}{
		{0, 6, 6, 0},
		{0, 7, 6, 0},
		{0, 8, 6, 1},
		{0, 9, 6, 1},
		{9, 2, 2, 1}, // it is near
		{11, 20, 2, 1},
		{11, 30, 2, 1},
		{12, 40, 2, 1}, // it was, in the window before
		{22, 20, 20, 1},
		{22, 20, 20, 1},
		{22, 15, 15, 2},
		{23, 15, 15, 2},
		{50, 7, 7, 2},
		{500, 6, 6, 2},
		{501, 6, 6, 2},
		{502, 6, 6, 2}, // still far
		{503, 5, 5, 2},
		{530, 5.1, 5, 2},
		{545, 6, 5.1, 2},
		{546, 7, 5.1, 2},
		{546, 7, 5.1, 3},
	} {
		d.observe(time.Duration(step.ms*1e6), start.Add(step.at*time.Second))
		if got := d.rtt(); got != time.Duration(step.want*1e6) || l.count(tooFar) != step.warnings {
			t.Fatalf("step %d: distance %v, %d warnings, want %v ms and %d:\n%s", i, got, l.count(tooFar), step.want, step.warnings, l)
		}
	}
	for _, want := range []string{"round_trip=6ms timeout=10ms", "a little late", "raise memory.timeout to 30ms", "round_trip=15ms timeout=10ms", "no answer comes in time", "to 75ms"} {
		if !strings.Contains(l.String(), want) {
			t.Errorf("want %q in\n%s", want, l)
		}
	}
	before := d.rtt()
	s.recordTrip(time.Millisecond, 7, 1) // a refusal is fast
	s.recordTrip(11*time.Millisecond, 7, 2)
	s.recordTrip(10*time.Millisecond, 7, 0)
	if d.rtt() != before || d.late.Load() != 5 {
		t.Errorf("distance %v after %v, %d late, want 5", d.rtt(), before, d.late.Load())
	}
}
