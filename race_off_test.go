//go:build !race

package fastlimit

const raceEnabled = false
