//go:build race

package fastlimit

const raceEnabled = true
