//go:build !linux

package bench

import (
	"errors"
	"time"
)

func residentBytes() (int64, error) {
	return 0, errors.New("bench: resident memory is measured on Linux only")
}

func availableBytes() (int64, error) {
	return 0, errors.New("bench: available memory is known on Linux only: give a cap")
}

func settle() { time.Sleep(20 * time.Millisecond) }

func pinThread(int) error { return nil }

func cpuTime() time.Duration { return 0 }
