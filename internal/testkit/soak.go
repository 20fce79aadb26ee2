package testkit

import "os"

// Size returns the size of a random or repeated test: small by default, and full where
// FASTLIMIT_SOAK is set, as "make soak" does. Small is what finds the test's mutants in
// testdata/mutants time after time.
func Size[N int | int64 | uint64 | float64](small, full N) N {
	if os.Getenv("FASTLIMIT_SOAK") != "" {
		return full
	}
	return small
}
