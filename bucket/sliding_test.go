package bucket

import (
	"math"
	"strings"
	"testing"
	"time"
)

func mustSliding(t *testing.T, n uint64, per time.Duration) Shape {
	t.Helper()
	s, err := NewSlidingWindow(n, per)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The most that a sliding window counts depends on its period, and so much fits it
// twice: of the period before, and now.
func TestSlidingWindowBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		per  time.Duration
		most uint64
	}{
		{time.Second, 1<<15 - 1},
		{1500 * time.Millisecond, 1<<15 - 1},
		{time.Minute, 1<<18 - 1},
		{time.Hour, 1<<21 - 1},
		{24 * time.Hour, 1<<23 - 1},
		{366 * 24 * time.Hour, 1<<26 - 1},
	} {
		s := mustSliding(t, tt.most, tt.per)
		if s.Algorithm() != SlidingWindow || !s.Windowed() || s.Logged() || s.Limit() != tt.most || !s.Portable() || s.WithSlack(time.Hour) != s {
			t.Errorf("%v: %+v", tt.per, s)
		}
		now := s.WindowTicks(math.MaxInt64) // the last time that there is
		state := s.add(0, now, tt.most)
		next := (now + 1<<(2*s.countBits)) &^ s.low
		if level := s.Level(s.add(s.sliding(s.Window(now), tt.most, 0), now, tt.most), now&^s.low); level != 2*tt.most {
			t.Errorf("%v: level %d of twice %d", tt.per, level, tt.most)
		}
		if s.Level(state, now) != tt.most || s.Level(state, next) != tt.most || s.Level(s.add(state, now, 9), now) != tt.most {
			t.Errorf("%v: %d in its window, %d as the next begins, %d with 9 more", tt.per, s.Level(state, now), s.Level(state, next), s.Level(s.add(state, now, 9), now))
		}
		if _, err := NewSlidingWindow(tt.most+1, tt.per); err == nil || !strings.Contains(err.Error(), "too many: want at most") {
			t.Errorf("%v: %v", tt.per, err)
		}
	}
	for want, make := range map[string]func() (Shape, error){
		"period 1.03s is not whole sixteenths of a second: want whole seconds": func() (Shape, error) { return NewSlidingWindow(5, 1030*time.Millisecond) },
		"a window of 999ms: want 1s to 366d":                                   func() (Shape, error) { return NewSlidingWindow(5, 999*time.Millisecond) },
		"a log of 1048577 units for each client is too long: want at most":     func() (Shape, error) { return NewSlidingLog(1<<20+1, time.Hour) },
		"0 admits nothing": func() (Shape, error) { return NewSlidingLog(0, time.Hour) },
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A store may say what it has counted, and give back, and count what it denied; the
// states here are of a window of 5 units in 62,500 steps of 16 µs.
func TestSlidingStates(t *testing.T) {
	t.Parallel()
	s := mustSliding(t, 5, time.Second)
	at := s.sliding
	half := s.WindowTicks(7*time.Second + 500*time.Millisecond)
	for _, tt := range []struct {
		state                     uint64
		level                     uint64
		add2, sub2, settled2, out uint64
		fits2, live               bool
	}{
		{0, 0, at(7, 0, 2), 0, at(7, 0, 2), at(7, 0, 2), true, false},
		{at(5, 5, 5), 0, at(7, 0, 2), 0, at(7, 0, 2), at(7, 0, 2), true, false},
		{at(6, 5, 4), 2, at(7, 4, 2), at(7, 2, 0), at(7, 4, 2), at(7, 4, 2), true, true},
		{at(6, 0, 5), 3, at(7, 5, 2), at(7, 3, 0), at(7, 5, 2), at(7, 5, 2), true, true}, // 2.5, rounded up
		{at(7, 5, 1), 4, at(7, 5, 3), at(7, 4, 0), at(7, 5, 3), at(7, 5, 3), false, true},
		{at(7, 0, 3), 3, at(7, 0, 5), at(7, 0, 1), at(7, 0, 5), at(7, 0, 5), true, true},
		{at(7, 2, 4), 5, at(7, 2, 6), at(7, 2, 2), at(7, 2, 6), at(7, 2, 5), false, true},
		{at(7, 2, 9), 10, at(7, 2, 11), at(7, 2, 7), at(7, 2, 11), at(7, 2, 9), false, true}, // as after a fallback
		{at(8, 3, 1), 4, at(8, 3, 3), at(8, 2, 0), at(8, 5, 1), at(8, 3, 3), false, true},    // overtaken at the edge
		{at(9, 1, 1), 2, at(9, 1, 3), 0, at(9, 1, 1), at(9, 1, 3), true, true},
	} {
		if got := s.Level(tt.state, half); got != tt.level {
			t.Errorf("%x: level %d, want %d", tt.state, got, tt.level)
		}
		if s.Fits(tt.state, half, 2) != tt.fits2 || s.Live(tt.state, half) != tt.live || tt.fits2 && s.Remaining(tt.state, half) != 5-tt.level {
			t.Errorf("%x: fits %t, live %t, %d remain", tt.state, s.Fits(tt.state, half, 2), s.Live(tt.state, half), s.Remaining(tt.state, half))
		}
		for i, got := range []uint64{s.add(tt.state, half, 2), s.Sub(tt.state, half, 2), s.settle(tt.state, half, 2), s.exhausted(tt.state, half, 2)} {
			if want := []uint64{tt.add2, tt.sub2, tt.settled2, tt.out}[i]; got != want {
				t.Errorf("%x: change %d makes it %x, want %x", tt.state, i, got, want)
			}
		}
	}
	for _, tt := range [][3]uint64{
		{at(7, 3, 1), at(7, 1, 4), at(7, 1, 4)}, {at(8, 1, 1), at(7, 9, 4), at(8, 3, 1)}, {at(7, 1, 0), at(7, 0, 1), at(7, 0, 1)}, {at(9, 1, 1), at(7, 9, 9), at(9, 1, 1)}, {0, at(7, 1, 1), at(7, 1, 1)},
	} {
		if s.Join(tt[0], tt[1]) != tt[2] || s.Join(tt[1], tt[0]) != tt[2] {
			t.Errorf("%x and %x make %x and %x, want %x", tt[0], tt[1], s.Join(tt[0], tt[1]), s.Join(tt[1], tt[0]), tt[2])
		}
	}
	if s.Full(at(7, 5, 4), half) || !s.Full(at(7, 0, 5), half) || s.WindowOf(at(7, 1, 1)) != 7 {
		t.Error("only a count that has reached the limit stays as it is")
	}
	if window, level := s.Counts(at(6, 1, 3), half); window != 7 || level != Pack(3, 0) || s.Reported(half, Pack(2, 3)) != at(7, 2, 3) || s.Reported(half, 0) != 0 {
		t.Errorf("window %d, level %x", window, level)
	}
}
