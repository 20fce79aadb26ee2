package clock

import (
	"testing"
	"time"
)

// A reload keeps what a store has said about its clock: reading this machine's clock again would move the
// line away from the store's, and the next answer back, so that filter and sketch would admit a share of the
// limit again.
func TestReloadKeepsTheStoresTime(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Minute, time.Minute} { // of the store
		w := newWallTrace(true)
		observe := func() {
			w.clock.ObserveStore(uint64((w.wallAt+ahead)/time.Microsecond), w.at, w.at, time.Millisecond)
		}
		observe()
		for range 3 {
			w.clock.StartWall(true)
			if got := w.ahead(); got != ahead {
				t.Errorf("%v ahead of the machine's clock after a reload, want %v", got, ahead)
			}
			observe()
		}
	}
}

// An answer that comes after a reload to no store says nothing: the line follows
// this machine's clock, also when that is set later.
func TestLateAnswerAfterTheStoreIsGone(t *testing.T) {
	t.Parallel()
	w := newWallTrace(true)
	observe := func(ahead time.Duration) {
		w.clock.ObserveStore(uint64((w.wallAt+ahead)/time.Microsecond), w.at, w.at, time.Second)
	}
	observe(0)
	w.clock.StartWall(false)
	observe(time.Millisecond)
	w.pass(2 * wallEvery)
	w.wallAt += time.Hour
	if got := w.ahead(); got != 0 {
		t.Errorf("%v ahead of the machine's clock, which was set", got)
	}
}

// TestResume: the wall time by which windows begin continues as in a process that keeps running: it does not
// step back with the wall clock, or clients would be denied for a window in the future.
func TestResume(t *testing.T) {
	t.Parallel()
	ahead := time.Duration(time.Now().Add(5 * time.Hour).UnixNano())
	for _, stored := range []bool{false, true} {
		c := new(Clock)
		c.StartMachine()
		at := time.Now()
		c.Resume(at, time.Hour, time.Minute, ahead, stored)
		if got := c.WallTime(c.Now()); got < ahead || got > ahead+2*time.Minute {
			t.Errorf("with a store %v: the line stands %v after where it was, want a minute, less an eighth", stored, got-ahead)
		}
		if want := map[bool]wallSource{true: wallGuess, false: wallClock}[stored]; c.wall.anchor.Load().source != want {
			t.Errorf("with a store %v: source %v", stored, c.wall.anchor.Load().source)
		}
	}
}
