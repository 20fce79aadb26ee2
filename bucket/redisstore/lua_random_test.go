package redisstore

import (
	"math/rand/v2"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// Random states and operations for the comparison of the script with the model.

// randomShape covers the allowed rates, from 1/d to 10^9/s, up to the largest
// burst that Lua can keep.
func randomShape(rng *rand.Rand) bucket.Shape {
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 15 * time.Minute, 7 * time.Second}
	for {
		if rng.IntN(2) == 0 {
			s, err := bucket.NewWindow(1+rng.Uint64N(1<<rng.UintN(33)), periods[rng.IntN(len(periods))])
			if err == nil {
				return s
			}
			continue
		}
		n := 1 + rng.Uint64N(1<<(1+rng.UintN(30)))
		s, err := bucket.NewShape(n, periods[rng.IntN(len(periods))], 1+rng.Uint64N(1<<rng.UintN(40)))
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
	if rng.IntN(2) == 0 {
		op.At = op.At.Add(-2 * op.At.Sub(time.Unix(0, 0)))
	}
	if rng.IntN(3) == 0 {
		op.Patience = time.Duration(rng.Int64() >> rng.UintN(63))
	}
	return op
}

func randomValue(rng *rand.Rand, s bucket.Shape, now uint64) string {
	if rng.IntN(8) == 0 {
		return ""
	}
	st := step.State{Level: near(rng, s.Limit()+s.Grace()), Unit: s.Unit()}
	if s.Windowed() {
		return randomWindow(rng, s, now)
	}
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
	}
	if v := encodeState(st); rng.IntN(50) != 0 {
		return v
	}
	return corrupt(rng, encodeState(st))
}

// randomWindow is what is stored of a window around now, or of another algorithm or
// period.
func randomWindow(rng *rand.Rand, s bucket.Shape, now uint64) string {
	st := step.State{Algorithm: bucket.FixedWindow, Level: near(rng, s.Limit()), Unit: uint64(s.Period() / time.Microsecond), Last: windowOf(s, now)}
	switch rng.IntN(6) {
	case 0:
		st.Last = near(rng, st.Last)
	case 1:
		st.Unit = near(rng, st.Unit)
	case 2:
		st.Algorithm, st.Last = bucket.LeakyBucket, now
	}
	if rng.IntN(3) == 0 {
		st.Quiet = near(rng, st.Last)
	}
	if v := encodeState(st); rng.IntN(50) != 0 {
		return v
	}
	return corrupt(rng, encodeState(st))
}

func corrupt(rng *rand.Rand, v string) string {
	switch rng.IntN(5) {
	case 0:
		return v[:1+rng.IntN(len(v)-1)]
	case 1:
		return v + "x"
	case 2:
		return string([]byte{v[0] ^ 3}) + v[1:]
	case 3:
		at := 1 + 8*rng.IntN(len(v)/8)
		return v[:at] + string([]byte{1, 2, 3, 4, 5, 6, byte(rng.IntN(256)), 0x40}) + v[at+8:] // a fraction
	default:
		at := 1 + 8*rng.IntN(len(v)/8)
		return v[:at+6] + string([]byte{byte(rng.IntN(256)), byte(0x44 + rng.IntN(256-0x44))}) + v[at+8:] // huge, negative or not a number
	}
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
		sc.values = append(sc.values, randomValue(rng, shapes[i], sc.now))
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
