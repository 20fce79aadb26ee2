package redisstore

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// What the script stores, in Go, for tests of the script.

const safe = 1<<53 - 1 // the largest integer of the script

// A stored state is a version byte, then Level, Last and Unit as little-endian
// float64, and in version 2 also Quiet. Version 2 is written only while Quiet is
// in the future. It is binary because Redis takes a third longer for a check with
// text (docs/decisions/0006).
const (
	plainVersion = 1
	plainBytes   = 1 + 3*8
	quietVersion = 2
	quietBytes   = 1 + 4*8

	windowVersion = 3 // of a fixed window, always with Quiet
)

// encodeState returns a state as the script stores it.
func encodeState(s step.State) string {
	version, numbers := byte(plainVersion), []uint64{s.Level, s.Last, s.Unit}
	switch {
	case s.Algorithm == bucket.FixedWindow:
		version, numbers = windowVersion, append(numbers, s.Quiet)
	case s.Quiet > 0:
		version, numbers = quietVersion, append(numbers, s.Quiet)
	}
	b := append(make([]byte, 0, quietBytes), version)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return string(b)
}

// parseState reads a stored state and reports whether v is one.
func parseState(v string) (step.State, bool) {
	plain := len(v) == plainBytes && v[0] == plainVersion
	if !plain && !(len(v) == quietBytes && (v[0] == quietVersion || v[0] == windowVersion)) {
		return step.State{}, false
	}
	var n [4]uint64
	for i := range len(v) / 8 {
		f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(v[1+8*i:])))
		if !(f >= 0 && f <= safe && f == math.Floor(f)) { // not NaN either
			return step.State{}, false
		}
		n[i] = uint64(f)
	}
	s := step.State{Level: n[0], Last: n[1], Unit: n[2], Quiet: n[3]}
	if v[0] == windowVersion {
		s.Algorithm = bucket.FixedWindow
	}
	return s, s.Unit > 0 && s.Level <= bucket.MaxPortable
}

func TestStoredState(t *testing.T) {
	t.Parallel()
	for _, s := range []step.State{
		{Level: 1, Last: 2, Unit: 3}, {Unit: 1}, {Last: 2, Unit: 3, Quiet: 4}, {Algorithm: bucket.FixedWindow, Level: 1, Last: 2, Unit: 3}, {Algorithm: bucket.FixedWindow, Unit: 3, Quiet: 2}, {Level: bucket.MaxPortable, Last: safe, Unit: safe, Quiet: safe},
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
		numbers(1, 2, 3, 4), versioned(2, 1, 2, 3), versioned(3, 1, 2, 3), versioned(4, 1, 2, 3, 4), versioned(2, 1, 2, 3, 4, 5), versioned(2, 1, 2, 0, 4),
		versioned(2, 1, 2, 3, -1), versioned(2, 1, 2, 3, 0.5), versioned(2, 1, 2, 3, 1<<53), versioned(2, 1, 2, 3, math.NaN()),
	} {
		if s, ok := parseState(v); ok {
			t.Errorf("parseState(%q) = %+v, want none", v, s)
		}
	}
}
