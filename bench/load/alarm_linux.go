package load

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer of the kernel. A timer of the runtime is late by up to a
// millisecond where nothing else goes on, which is many times what an answer
// takes; this one wakes the runtime as a connection does. Not safe for
// concurrent use, but for stop.
type alarm struct {
	fd   int
	file *os.File
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: a timer: %w", err)
	}
	return &alarm{fd, os.NewFile(uintptr(fd), "timer")}, nil
}

// sleep returns after d, above 0, or at once when the alarm is stopped.
func (a *alarm) sleep(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if unix.TimerfdSettime(a.fd, 0, &spec, nil) != nil {
		return
	}
	var expirations [8]byte
	_, _ = a.file.Read(expirations[:]) // it fails when stopped
}

// stop ends a sleep, and all to come.
func (a *alarm) stop() { _ = a.file.SetDeadline(time.Unix(1, 0)) }

func (a *alarm) close() { a.file.Close() }
