//go:build race

package inproc

const raceEnabled = true
