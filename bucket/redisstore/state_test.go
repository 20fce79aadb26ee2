package redisstore

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// What the script stores, in Go, for tests of the script.

const safe = 1<<53 - 1 // the largest integer of the script

// A stored state is a version byte, then little-endian float64: Level, Last and Unit,
// and in version 2 also Quiet. Version 2 is written only while Quiet is in the future.
// It is binary because Redis takes a third longer for a check with text
// (docs/decisions/0006).
const (
	plainVersion   = 1
	quietVersion   = 2
	windowVersion  = 3 // of a fixed window, always with Quiet
	slidingVersion = 4 // of a sliding window: as the fixed one's, then Previous
	logVersion     = 5 // of a sliding log: Quiet, then the times
)

// encodeState returns a state as the script stores it.
func encodeState(s step.State) string {
	version, numbers := byte(plainVersion), []uint64{s.Level, s.Last, s.Unit}
	switch {
	case s.Algorithm == bucket.FixedWindow:
		version, numbers = windowVersion, append(numbers, s.Quiet)
	case s.Algorithm == bucket.SlidingWindow:
		version, numbers = slidingVersion, append(numbers, s.Quiet, s.Previous)
	case s.Algorithm == bucket.SlidingLog:
		version, numbers = logVersion, append([]uint64{s.Quiet}, s.Log.All()...)
	case s.Quiet > 0:
		version, numbers = quietVersion, append(numbers, s.Quiet)
	}
	b := []byte{version}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return string(b)
}

// algorithmOf is whose a value is by its version and size.
func algorithmOf(v string) (a bucket.Algorithm, ok bool) {
	if len(v)%8 != 1 || len(v) == 1 {
		return 0, false
	}
	switch numbers := len(v) / 8; v[0] {
	case plainVersion:
		return bucket.LeakyBucket, numbers == 3
	case quietVersion:
		return bucket.LeakyBucket, numbers == 4
	case windowVersion:
		return bucket.FixedWindow, numbers == 4
	case slidingVersion:
		return bucket.SlidingWindow, numbers == 5
	case logVersion:
		return bucket.SlidingLog, true
	}
	return 0, false
}

// parseState reads a stored state and reports whether v is one.
func parseState(v string) (step.State, bool) {
	algorithm, ok := algorithmOf(v)
	if !ok {
		return step.State{}, false
	}
	n := make([]uint64, 0, 5)
	for i := 1; i < len(v); i += 8 {
		f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(v[i:])))
		if !(f >= 0 && f <= safe && f == math.Floor(f)) { // not NaN either
			return step.State{}, false
		}
		n = append(n, uint64(f))
	}
	if algorithm == bucket.SlidingLog {
		return step.State{Algorithm: algorithm, Quiet: n[0], Log: step.NewTimes(n[1:]...)}, slices.IsSorted(n[1:])
	}
	n = append(n, 0, 0)
	s := step.State{Algorithm: algorithm, Level: n[0], Last: n[1], Unit: n[2], Quiet: n[3], Previous: n[4]}
	most := uint64(bucket.MaxPortable)
	if algorithm == bucket.SlidingWindow {
		_, most = bucket.Unpack(math.MaxUint64)
	}
	return s, s.Unit > 0 && max(s.Level, s.Previous) <= most
}

func TestStoredState(t *testing.T) {
	t.Parallel()
	for _, s := range []step.State{
		{Level: 1, Last: 2, Unit: 3},
		{Unit: 1},
		{Last: 2, Unit: 3, Quiet: 4},
		{Algorithm: bucket.FixedWindow, Level: 1, Last: 2, Unit: 3},
		{Algorithm: bucket.FixedWindow, Unit: 3, Quiet: 2},
		{Level: bucket.MaxPortable, Last: safe, Unit: safe, Quiet: safe},
		{Algorithm: bucket.SlidingWindow, Level: 1, Previous: 1<<26 - 1, Last: 2, Unit: 3, Quiet: 4},
		{Algorithm: bucket.SlidingLog, Quiet: 4},
		{Algorithm: bucket.SlidingLog, Log: step.NewTimes(1, 2, 2, safe)},
	} {
		if got, ok := parseState(encodeState(s)); !ok || got != s {
			t.Errorf("parseState(%q) = %+v, %v", encodeState(s), got, ok)
		}
	}
	versioned := func(version byte, n ...float64) string {
		b := []byte{version}
		for _, f := range n {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		}
		return string(b)
	}
	numbers := func(n ...float64) string { return versioned(1, n...) }
	// What earlier releases stored.
	if s, ok := parseState(numbers(1, 2, 3)); !ok || s != (step.State{Level: 1, Last: 2, Unit: 3}) {
		t.Errorf("version 1: %+v, %v", s, ok)
	}
	for _, v := range []string{
		"", "1:2:3", strings.Repeat("0C", 12) + "0", "\x02" + numbers(1, 2, 3)[1:], numbers(1, 2), numbers(1, 2, 3) + "x",
		numbers(-1, 2, 3), numbers(1, -2, 3), numbers(1, 2, 0), numbers(1, 2, -3), numbers(1.5, 2, 3), numbers(1, 2.5, 3),
		numbers(1, 2, 3.5), numbers(1<<52+1, 2, 3), numbers(1, 1<<53, 3), numbers(1, 2, 1<<53), numbers(math.NaN(), 2, 3),
		numbers(1, math.NaN(), 3), numbers(1, 2, math.NaN()), numbers(math.Inf(1), 2, 3), numbers(1, 2, math.Inf(1)),
		numbers(1, 2, 3, 4), versioned(2, 1, 2, 3), versioned(3, 1, 2, 3), versioned(4, 1, 2, 3, 4), versioned(4, 1, 2, 3, 4, 1<<26), versioned(5), versioned(5, 1, 3, 2), versioned(5, 1, math.NaN()), versioned(6, 1, 2, 3), versioned(2, 1, 2, 3, 4, 5), versioned(2, 1, 2, 0, 4),
		versioned(2, 1, 2, 3, -1), versioned(2, 1, 2, 3, 0.5), versioned(2, 1, 2, 3, 1<<53), versioned(2, 1, 2, 3, math.NaN()),
	} {
		if s, ok := parseState(v); ok {
			t.Errorf("parseState(%q) = %+v, want none", v, s)
		}
	}
}
