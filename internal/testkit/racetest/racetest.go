// Package racetest runs functions of tests at the same time, to provoke races whose
// window is a few ns.
package racetest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Goroutines is the number that [Together] starts.
const Goroutines = 64

// Together runs f(0) to f(63) in goroutines that start at once, and waits for
// them.
func Together(f func(g int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for g := range Goroutines {
		wg.Go(func() {
			<-start
			f(g)
		})
	}
	close(start)
	wg.Wait()
}

// Lockstep runs f in two goroutines, g = 0 and 1, that begin each round
// together, but for a delay that differs from round to round: a race of a few
// ns is then met in some of them (of updates by a load and a store, one in 12
// is lost on two idle cores). It needs two cores, so call it from tests
// that are not parallel. It returns the number of rounds: fewer than most where
// they would take more than a second.
func Lockstep(most int, f func(g, round int)) (rounds int) {
	var arrived, end atomic.Int64
	end.Store(int64(most))
	start := time.Now()
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for r := 0; r < int(end.Load()); r++ {
				if g == 0 && r%64 == 0 && time.Since(start) > time.Second {
					end.Store(int64(r + 1)) // seen by the other after the barrier
				}
				arrived.Add(1)
				for spin := 1; arrived.Load() < int64(2*(r+1)); spin++ {
					if spin%256 == 0 {
						runtime.Gosched() // the other one may have no core
					}
				}
				for range [2]int{r % 61, r / 61 % 61}[g] {
					arrived.Load()
				}
				f(g, r)
			}
		})
	}
	wg.Wait()
	return int(end.Load())
}
