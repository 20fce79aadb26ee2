package racetest

import (
	"sync/atomic"
	"testing"
)

func TestTogether(t *testing.T) {
	var ran [Goroutines]atomic.Int32
	Together(func(g int) { ran[g].Add(1) })
	for g := range ran {
		if n := ran[g].Load(); n != 1 {
			t.Errorf("goroutine %d ran %d times", g, n)
		}
	}
}

// TestLockstep: every round is run by both, and no round begins before the
// last one ended in both.
func TestLockstep(t *testing.T) {
	const most = 1000
	var ran [most]atomic.Int32
	rounds := Lockstep(most, func(_, r int) {
		ran[r].Add(1)
		if r > 0 && ran[r-1].Load() != 2 {
			t.Errorf("round %d began before the last one had ended", r)
		}
	})
	for r := range rounds {
		if n := ran[r].Load(); n != 2 {
			t.Errorf("round %d ran %d times", r, n)
		}
	}
}
