//go:build !linux

package load

import "time"

// alarm is a timer of the runtime, which may be late by a millisecond.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) sleep(d time.Duration) { time.Sleep(min(d, 100*time.Millisecond)) }

func (*alarm) stop() {}

func (*alarm) close() {}
