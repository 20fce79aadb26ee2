package redisstore

import (
	"math/rand/v2"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
	"github.com/fastlimit/fastlimit/bucket/storetest/trial"
)

// randomValue is what Redis may hold: nothing, a state, or one in 50 times something else.
func randomValue(rng *rand.Rand, s bucket.Shape, now uint64) string {
	st := trial.RandomState(rng, s, now)
	if st == (step.State{}) {
		return ""
	}
	return maybeCorrupt(rng, encodeState(st))
}

func maybeCorrupt(rng *rand.Rand, v string) string {
	if rng.IntN(50) != 0 {
		return v
	}
	if len(v) > 17 && v[0] == logVersion && rng.IntN(4) == 0 { // descending
		at := 9 + 8*rng.IntN(len(v)/8-2)
		return v[:at] + v[at+8:at+16] + v[at:at+8] + v[at+16:]
	}
	return corrupt(rng, v)
}

func corrupt(rng *rand.Rand, v string) string {
	switch rng.IntN(5) {
	case 0:
		return v[:1+rng.IntN(len(v)-1)]
	case 1:
		return v + "x"
	case 2:
		return string([]byte{v[0] ^ byte(1+rng.IntN(7))}) + v[1:]
	case 3:
		at := 1 + 8*rng.IntN(len(v)/8)
		return v[:at] + string([]byte{1, 2, 3, 4, 5, 6, byte(rng.IntN(256)), 0x40}) + v[at+8:] // a fraction
	default:
		at := 1 + 8*rng.IntN(len(v)/8)
		return v[:at+6] + string([]byte{byte(rng.IntN(256)), byte(0x44 + rng.IntN(256-0x44))}) + v[at+8:] // huge, negative or not a number
	}
}
