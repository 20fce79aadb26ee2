// Package machine tells which machine this is, since when it runs, and how old something
// is that a process on it has written before.
package machine

import (
	"errors"
	"fmt"
	"time"
)

// Instant is a moment, by all clocks that outlive a process.
type Instant struct {
	Machine string        // a hash of the machine's id; "" if it has none
	Boot    string        // of this start of the machine, on which Up counts; "" if it is not known
	Up      time.Duration // since that start, suspension included
	Wall    time.Time     // by the wall clock, which may be set
}

// Now is this moment. Up was read not before Wall.
func Now() Instant {
	now := Instant{Wall: time.Now()}
	now.Machine, now.Boot, now.Up = read()
	return now
}

// Errors of Since.
var (
	ErrOtherMachine = errors.New("of another machine")
	ErrFuture       = errors.New("from the future")
	// ErrTooOld is of those who have a clock that cannot count on from so long ago.
	ErrTooOld = errors.New("its clock has run for too long")
)

// Since is how long before now an Instant was, rather too long than too short: the clock
// that counts on through suspension where the machine has not been started anew since, else
// the wall clock. An Instant that was then less long ago than the machine's start is one by
// a wall clock that was set back since, by nobody knows how much: it is from the future like
// any that was after now.
func (now Instant) Since(was Instant) (time.Duration, error) {
	if was.Machine != now.Machine {
		return 0, ErrOtherMachine
	}
	if was.Boot == now.Boot && was.Boot != "" {
		if now.Up < was.Up {
			return 0, fmt.Errorf("%w: %v after now", ErrFuture, was.Up-now.Up)
		}
		return now.Up - was.Up, nil
	}
	age, least := now.Wall.Round(0).Sub(was.Wall.Round(0)), time.Duration(0)
	if was.Boot != "" && now.Boot != "" {
		least = now.Up
	}
	switch {
	case age < 0:
		return 0, fmt.Errorf("%w: %v after now", ErrFuture, -age)
	case age < least:
		return 0, fmt.Errorf("%w: it is %v old by the wall clock, which was set back since, as this machine has run for %v", ErrFuture, age, least)
	}
	return age, nil
}
