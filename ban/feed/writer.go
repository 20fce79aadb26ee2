package feed

import (
	"errors"
	"net/netip"
	"time"
)

// MaxBatch is the maximum number of changes of one [Writer.Apply].
const MaxBatch = 1000

// Change is a change of one prefix in a kernel.
type Change struct {
	Prefix netip.Prefix  // masked, and never IPv4 mapped to IPv6
	For    time.Duration // the element's life from now on, at least 20 ms; 0 removes it
}

// Writer is a kernel, or a substitute for one. Only the worker of a feed calls it, one call
// at a time. Errors should be an [*Error]; any other one counts as [ClassOther].
type Writer interface {
	// Open makes an empty table with its sets and rules, and replaces what is left of an
	// earlier one. It is called again after a method has failed with ClassLost, or after
	// Open itself has failed. It closes whatever was open before.
	Open() error

	// Apply carries out all changes, at most MaxBatch of different prefixes, or none.
	// Adding an element that exists replaces its time, and removing a missing one is no
	// error.
	Apply(changes []Change) error

	// Counters returns the packets and bytes dropped since Open. Without listing elements,
	// it fails with ClassLost if table, sets or rules are not as Open has made them.
	Counters() (packets, bytes uint64, err error)

	// Close ends everything that Open has made.
	Close() error
}

// Class is the kind of an error.
type Class uint8

// The classes of errors.
const (
	ClassOther       Class = iota // none of the others
	ClassLost                     // table, sets or rules are gone, or belong to another program: open again
	ClassFull                     // a set has no room
	ClassElement                  // a change that the kernel rejects, whatever else is in its batch
	ClassBusy                     // memory or buffers were short: the changes may or may not have been made
	ClassDenied                   // the process lacks the permission
	ClassTaken                    // another process owns the table
	ClassUnsupported              // the kernel does not support it
	numClasses
)

// String returns the class's name in logs and metrics.
func (c Class) String() string {
	return [numClasses]string{"other", "lost", "full", "element", "busy", "denied", "taken", "unsupported"}[c]
}

// Error is an error of a known class.
type Error struct {
	Class Class
	Err   error
}

// Error returns the message of Err, which says what to do.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// classOf returns the class of an error of a writer.
func classOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok && e.Class < numClasses {
		return e.Class
	}
	return ClassOther
}
