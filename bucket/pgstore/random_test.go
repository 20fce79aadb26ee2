package pgstore

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// Random states and operations for the comparison of the function with the model.

const safe = 1<<53 - 1 // the largest number in a row

// randomShape covers the allowed rates, from 1/d to 10^9/s, up to the largest
// burst that a row can hold.
func randomShape(rng *rand.Rand) bucket.Shape {
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 15 * time.Minute, 7 * time.Second}
	for {
		n := uint64(0)
		a := algorithms[rng.IntN(len(algorithms))]
		switch a {
		case bucket.FixedWindow:
			n = 1 + rng.Uint64N(1<<rng.UintN(33))
		case bucket.SlidingWindow:
			n = 1 + rng.Uint64N(1<<rng.UintN(25))
		case bucket.SlidingLog:
			n = 1 + rng.Uint64N(1<<min(rng.UintN(13), rng.UintN(13)))
		default:
			n = 1 + rng.Uint64N(1<<(1+rng.UintN(30)))
		}
		s, err := shapeOf(a, n, periods[rng.IntN(len(periods))], 1+rng.Uint64N(1<<rng.UintN(40)))
		if err == nil && s.Portable() {
			return s
		}
	}
}

// shapeOf is a limit of an algorithm; only a leaky bucket has a burst.
func shapeOf(a bucket.Algorithm, n uint64, per time.Duration, burst uint64) (bucket.Shape, error) {
	switch a {
	case bucket.FixedWindow:
		return bucket.NewWindow(n, per)
	case bucket.SlidingWindow:
		return bucket.NewSlidingWindow(n, per)
	case bucket.SlidingLog:
		return bucket.NewSlidingLog(n, per)
	}
	return bucket.NewShape(n, per, burst)
}

var algorithms = []bucket.Algorithm{bucket.LeakyBucket, bucket.FixedWindow, bucket.SlidingWindow, bucket.SlidingLog}

// near is a number around one that matters.
func near(rng *rand.Rand, n uint64) uint64 {
	switch rng.IntN(6) {
	case 0:
		return rng.Uint64N(n + 1)
	case 1:
		return n - min(n, rng.Uint64N(3))
	default:
		return n + rng.Uint64N(3)
	}
}

// windowOf is the window at a time in µs since 1970.
func windowOf(s bucket.Shape, now uint64) uint64 { return now / uint64(s.Period()/time.Microsecond) }

func randomOp(rng *rand.Rand, s bucket.Shape, now uint64) bucket.Op {
	limit := s.Limit() + s.Grace()
	op := bucket.Op{
		Kind: bucket.Kind(rng.IntN(int(bucket.NumKinds))), Shape: s,
		Cost: near(rng, s.Unit()), Count: 1 + rng.Uint64N(1<<rng.UintN(50)),
	}
	switch rng.IntN(8) {
	case 0:
		op.Cost = near(rng, limit)
	case 1:
		op.Cost = rng.Uint64() >> rng.UintN(64)
	case 2:
		op.Cost = near(rng, limit/(1+rng.Uint64N(100)))
	}
	if rng.IntN(3) == 0 {
		op.Floor = rng.Uint64() >> rng.UintN(64)
		if s.Algorithm() == bucket.SlidingWindow {
			op.Floor = bucket.Pack(near(rng, limit), near(rng, limit/2))
		} else if s.Logged() {
			op.Floor = near(rng, limit)
		}
	}
	if s.Windowed() {
		op.CountDenied = rng.IntN(3) == 0
		if rng.IntN(4) > 0 {
			op.Window = near(rng, windowOf(s, now))
		}
	}
	if rng.IntN(3) == 0 {
		op.Back = near(rng, limit/(1+rng.Uint64N(10)))
	}
	// Dates are around the scene's reading of the clock.
	op.At = time.Unix(0, 0).Add(time.Duration(rng.Int64()>>rng.UintN(63)) / 4)
	if s.Logged() && rng.IntN(2) == 0 { // where a floor counts
		op.At = time.Unix(0, 0).Add(-time.Duration(rng.Int64N(2 * int64(s.Period()))))
	} else if rng.IntN(2) == 0 {
		op.At = op.At.Add(-2 * op.At.Sub(time.Unix(0, 0)))
	}
	if rng.IntN(3) == 0 {
		op.Patience = time.Duration(rng.Int64() >> rng.UintN(63))
	}
	return op
}

func randomState(rng *rand.Rand, s bucket.Shape, now uint64) step.State {
	if rng.IntN(8) == 0 {
		return step.State{}
	}
	if s.Windowed() || s.Logged() {
		st := randomWindow(rng, s, now)
		if s.Logged() {
			st = randomLog(rng, s, now)
		}
		if rng.IntN(20) == 0 {
			st.Algorithm = algorithms[rng.IntN(len(algorithms))]
			st.Unit = max(st.Unit, 1)
		}
		return sound(st)
	}
	st := step.State{Level: near(rng, s.Limit()+s.Grace()), Unit: s.Unit()}
	switch rng.IntN(6) {
	case 0:
		st.Level = rng.Uint64() >> (11 + rng.UintN(53))
	case 1:
		other := randomShape(rng)
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
	return sound(st)
}

// sound is a state that a row can hold: the zero value is one without a row.
func sound(st step.State) step.State {
	_, most := bucket.Unpack(math.MaxUint64)
	switch st.Algorithm {
	case bucket.SlidingLog:
		return step.State{Algorithm: st.Algorithm, Quiet: min(st.Quiet, safe), Log: st.Log}
	case bucket.SlidingWindow:
		st.Level, st.Previous = min(st.Level, most), min(st.Previous, most)
	default:
		st.Previous = 0
	}
	st.Level, st.Last, st.Unit, st.Quiet, st.Log = min(st.Level, bucket.MaxPortable), min(st.Last, safe), max(st.Unit, 1), min(st.Quiet, safe), ""
	return st
}

// randomWindow is a state of a window around now, or of another period.
func randomWindow(rng *rand.Rand, s bucket.Shape, now uint64) step.State {
	st := step.State{Algorithm: s.Algorithm(), Level: near(rng, s.Limit()), Unit: uint64(s.Period() / time.Microsecond), Last: windowOf(s, now)}
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

func randomScene(rng *rand.Rand) scene {
	sc := scene{now: 1_763_596_800_000_000 + rng.Uint64N(1<<40)}
	if rng.IntN(4) > 0 {
		sc.clock = remote.Dating{Reading: remote.Reading{Micros: int64(near(rng, sc.now)), Got: time.Unix(0, 0)}, Sent: time.Unix(0, rng.Int64N(3000)-1000)}
	}
	values, ops := 1, 1
	if rng.IntN(3) == 0 {
		values, ops = 1+rng.IntN(8), 1+rng.IntN(20)
	}
	shapes := make([]bucket.Shape, values)
	for i := range shapes {
		shapes[i] = randomShape(rng)
		sc.states = append(sc.states, randomState(rng, shapes[i], sc.now))
	}
	for range ops {
		on := rng.IntN(values)
		sc.on = append(sc.on, on)
		shape := shapes[on]
		if rng.IntN(10) == 0 {
			shape = randomShape(rng) // nodes may differ while they are reloaded
		}
		sc.ops = append(sc.ops, randomOp(rng, shape, sc.now))
	}
	return sc
}
