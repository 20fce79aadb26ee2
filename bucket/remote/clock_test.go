package remote

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// A reading is a lower bound of the server's time, whatever the delays and
// however the clocks drift; and with a short round trip it is close.
func TestReadingIsALowerBound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 9))
	start := time.Now()
	for range 2000 {
		drift := (rng.Float64()*2 - 1) * 0.9 / (1 << driftShift)
		server := func(at time.Time) int64 { // µs, cut off
			return 1_763_596_800_000_000 + int64(float64(at.Sub(start))*(1+drift))/1000
		}
		var c Clocks
		at := start
		for range 50 {
			asked := at.Add(time.Duration(rng.Int64N(1e9)))
			there := asked.Add(time.Duration(rng.Int64N(1 << rng.IntN(30))))
			got := there.Add(time.Duration(rng.Int64N(1 << rng.IntN(30))))
			c.Observe("", Reading{Micros: server(there), Asked: asked, Got: got})
			at = got
			r := c.get("")
			for range 5 {
				x := got.Add(time.Duration(rng.Int64N(4e9) - 2e9))
				if low := r.lower(x); low > server(x) {
					t.Fatalf("%d at %v, the server says %d", low, x.Sub(start), server(x))
				}
			}
			if low := r.lower(got); low < server(got)-got.Sub(asked).Microseconds()-got.Sub(asked).Microseconds()>>driftShift-2 {
				t.Fatalf("%d µs off after a round trip of %v", server(got)-low, got.Sub(asked))
			}
		}
	}
}

// A reading that contradicts the one before is believed: the clock has stepped.
func TestReadingAfterAStep(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, step := range []int64{-3_600_000_000, -5_000, 5_000, 3_600_000_000} {
		var c Clocks
		c.Observe("", Reading{Micros: 1e15, Asked: start, Got: start.Add(time.Millisecond)})
		later := start.Add(time.Second)
		c.Observe("", Reading{Micros: 1e15 + 1e6 + step, Asked: later, Got: later.Add(time.Millisecond)})
		r := c.get("")
		if got := r.lower(later.Add(time.Millisecond)); got != 1e15+1e6+step {
			t.Errorf("a step of %d µs: %d", step, got-1e15)
		}
		c.Forget()
		if r := c.get(""); r.usable(later, time.Second) {
			t.Error("a reading that was forgotten is used")
		}
	}
	r := Reading{Micros: 1, Asked: start, Got: start.Add(time.Millisecond)}
	for after, want := range map[time.Duration]bool{time.Millisecond: true, 300 * time.Millisecond: true, 330 * time.Millisecond: false} {
		if got := r.usable(start.Add(after), 5*time.Millisecond); got != want {
			t.Errorf("usable %v after: %v", after, got)
		}
	}
	if r.Got = start.Add(3 * time.Millisecond); r.usable(r.Got, 5*time.Millisecond) {
		t.Error("a reading of a round trip of 3 ms serves operations that have 5 ms")
	}
}

// A slow answer does not blunt what a fast one told, until that has aged.
func TestReadingStaysSharp(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, tt := range []struct {
		later time.Duration
		want  int64 // µs after the first
	}{{100 * time.Millisecond, 99_902}, {20 * time.Second, 19_999_000}} {
		var c Clocks
		c.Observe("", Reading{Micros: 1e15, Asked: start, Got: start})
		got := start.Add(tt.later)
		c.Observe("", Reading{Micros: 1e15 + tt.later.Microseconds() - 1000, Asked: got.Add(-2 * time.Millisecond), Got: got})
		if r := c.get(""); r.lower(got)-1e15 != tt.want {
			t.Errorf("after %v: %d µs, want %d", tt.later, r.lower(got)-int64(1e15), tt.want)
		}
	}
}

// A clock is asked for where no recent reading serves, and what failed is not
// trusted any more.
func TestDating(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Millisecond
	var c Clocks
	now, asked, failure := time.Now(), 0, error(nil)
	date := func() (Dating, error) {
		return c.Dating("a", timeout, func() time.Time { return now }, func() (int64, error) {
			asked++
			return 1e15 + int64(asked), failure
		})
	}
	for i, step := range []struct {
		pass    time.Duration
		failure error
		asked   int
		micros  int64
	}{
		{0, nil, 1, 1e15 + 1},
		{time.Millisecond, nil, 1, 1e15 + 1},
		{time.Second, nil, 2, 1e15 + 2},
		{time.Second, errGone, 3, 0},
		{0, nil, 4, 1e15 + 4},
	} {
		now, failure = now.Add(step.pass), step.failure
		c.Observe("b", Reading{1e15, now, now})
		d, err := date()
		if !errors.Is(err, step.failure) || asked != step.asked || d.Micros != step.micros {
			t.Errorf("step %d: %+v, %v after asking %d times", i, d, err, asked)
		}
		if other := c.get("b"); other.usable(now, timeout) != (err == nil) {
			t.Errorf("step %d: the reading of another server is kept: %t", i, err != nil)
		}
		if err == nil && !d.Sent.Equal(now) {
			t.Errorf("step %d: sent at %v, want %v", i, d.Sent, now)
		}
	}
}
