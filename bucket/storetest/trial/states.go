package trial

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// RandomState is a state that a limit may find at now: one in eight is none, and few are
// of another limit or algorithm. Its numbers may be beyond those that a store can hold.
func RandomState(rng *rand.Rand, s bucket.Shape, now uint64) step.State {
	if rng.IntN(8) == 0 {
		return step.State{}
	}
	if s.Windowed() || s.Logged() {
		st := randomWindow(rng, s, now)
		if s.Logged() {
			st = randomLog(rng, s, now)
		}
		if rng.IntN(20) == 0 {
			st.Algorithm = Algorithms[rng.IntN(len(Algorithms))]
			st.Unit = max(st.Unit, 1)
		}
		return st
	}
	st := step.State{Level: near(rng, s.Limit()+s.Grace()), Unit: s.Unit()}
	switch rng.IntN(6) {
	case 0:
		st.Level = rng.Uint64() >> (11 + rng.UintN(53))
	case 1:
		other := RandomShape(rng)
		st.Unit = other.Unit()
	}
	age := near(rng, st.Level/s.PerMicro())
	switch rng.IntN(6) {
	case 0:
		age = rng.Uint64N(now)
	case 1:
		age = 0
	}
	st.Last = now - min(now, age)
	if rng.IntN(8) == 0 {
		st.Last = now + rng.Uint64N(1<<40) // the clock has stepped back
	}
	switch rng.IntN(4) {
	case 0:
		st.Quiet = near(rng, now)
	case 1:
		st.Quiet = now + rng.Uint64N(2*(s.Limit()/s.PerMicro())+5)
	case 2: // from before the clock stepped back
		st.Quiet = now + rng.Uint64N(1<<45)
	}
	return st
}

// randomWindow is a state of a window around now, or of another period.
func randomWindow(rng *rand.Rand, s bucket.Shape, now uint64) step.State {
	st := step.State{Algorithm: s.Algorithm(), Level: near(rng, s.Limit()), Unit: uint64(s.Period() / time.Microsecond), Last: WindowOf(s, now)}
	if s.Algorithm() == bucket.SlidingWindow {
		st.Level, st.Previous = near(rng, s.Limit()/(1+rng.Uint64N(4))), near(rng, s.Limit())
		st.Last -= rng.Uint64N(3)
	}
	switch rng.IntN(6) {
	case 0:
		st.Last = near(rng, st.Last)
	case 1:
		st.Unit = near(rng, st.Unit)
	}
	if rng.IntN(3) == 0 {
		st.Quiet = near(rng, st.Last-rng.Uint64N(2))
	}
	return st
}

// randomLog is a state of a log around now: its times are of a period and more, also
// too many of them, or all in the future.
func randomLog(rng *rand.Rand, s bucket.Shape, now uint64) step.State {
	period := uint64(s.Period() / time.Microsecond)
	times := make([]uint64, rng.Uint64N(near(rng, s.Limit())+2))
	spread := period + rng.Uint64N(period)
	if rng.IntN(3) == 0 {
		spread = 1 + rng.Uint64N(10) // many at one time
	}
	for i := range times {
		times[i] = now - rng.Uint64N(spread)
		if rng.IntN(8) == 0 {
			times[i] = now - near(rng, period)
		}
	}
	if rng.IntN(8) == 0 { // the clock has stepped back
		step := rng.Uint64N(1 << rng.UintN(50))
		for i := range times {
			times[i] += step
		}
	}
	slices.Sort(times)
	st := step.State{Algorithm: bucket.SlidingLog, Log: step.NewTimes(times...)}
	switch rng.IntN(6) {
	case 0:
		st.Quiet = near(rng, now)
	case 1:
		st.Quiet = near(rng, now+2*period)
	case 2:
		st.Quiet = now + rng.Uint64N(2*period)
	}
	return st
}
