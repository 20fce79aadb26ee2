package trial

import (
	"math/rand/v2"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Random limits, operations and states for the comparison of stores with the model.

// RandomShape covers the allowed rates, from 1/d to 10^9/s, up to the largest
// burst that every store can keep.
func RandomShape(rng *rand.Rand) bucket.Shape {
	periods := []time.Duration{time.Second, time.Second + time.Microsecond, time.Minute, time.Hour, 24 * time.Hour, 15 * time.Minute, 7 * time.Second}
	for {
		n := uint64(0)
		a := Algorithms[rng.IntN(len(Algorithms))]
		//exhaustive:enforce
		switch a {
		case bucket.LeakyBucket, bucket.TokenBucket:
			n = 1 + rng.Uint64N(1<<(1+rng.UintN(30)))
		case bucket.FixedWindow:
			n = 1 + rng.Uint64N(1<<rng.UintN(33))
		case bucket.SlidingWindow:
			n = 1 + rng.Uint64N(1<<rng.UintN(25))
		case bucket.SlidingLog:
			n = 1 + rng.Uint64N(1<<min(rng.UintN(13), rng.UintN(13)))
		}
		s, err := ShapeOf(a, n, periods[rng.IntN(len(periods))], 1+rng.Uint64N(1<<rng.UintN(40)))
		if err == nil && s.Portable() {
			return s
		}
	}
}

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

// WindowOf is the window at a time in µs since 1970.
func WindowOf(s bucket.Shape, now uint64) uint64 { return now / uint64(s.Period()/time.Microsecond) }

// RandomOp is an operation of any kind at now, with costs, floors and refunds around those
// that matter to the limit, and dates around the scene's reading of the clock.
func RandomOp(rng *rand.Rand, s bucket.Shape, now uint64) bucket.Op {
	limit := s.Most()
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
			op.Window = near(rng, WindowOf(s, now))
		}
	}
	if rng.IntN(3) == 0 {
		op.Back = near(rng, limit/(1+rng.Uint64N(10)))
	}
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
