// Package registry is for small sets of named texts that nodes share and that end by
// themselves, such as the overrides that operators set. A store keeps them; nodes ask it
// every second or two whether anything has changed, by [Store.Mark], and read all of it
// if so.
//
// The store gives each change a version that is above those before, by its own clock, so
// the last writer wins, whichever node wrote. What is deleted stays for a while as a
// [Record] without a Value. So a store that has lost everything, or its last second, may
// be told again by every node what that knew, in any order, with [Store.Restore]: of a
// name the highest version stays.
package registry

import (
	"context"
	"errors"
	"time"
)

// Bounds of a registry. What a store holds beyond them is skipped, and counted.
const (
	MaxRecords = 10_000
	MaxName    = 1 << 10 // bytes
	MaxValue   = 4 << 10
	MaxLife    = 366 * 24 * time.Hour

	// Grave is for how long what was deleted is remembered at most: longer than it
	// takes all nodes to learn of it.
	Grave = 10 * time.Minute
)

// Record is a named text.
type Record struct {
	Name    string
	Value   string // "": it was deleted
	Version uint64 // of all records of the registry
	Left    time.Duration
}

// Mark tells states of a registry apart. The zero value is that of one in which nothing
// was ever kept, or that has lost everything.
type Mark struct{ Epoch, Version uint64 }

// Lost reports whether a store that was at m has forgotten something, now that it is at
// now: it began anew, or goes on from an earlier state.
func (m Mark) Lost(now Mark) bool {
	return m != Mark{} && (now.Epoch != m.Epoch || now.Version < m.Version)
}

// Contents is what a store had when it was asked.
type Contents struct {
	Mark    Mark // from before Records were read, so they may be newer
	Records []Record
	Skipped int // that are beyond the bounds, or not readable
}

// Store keeps the records. Implementations are safe for concurrent use. An error means
// that nothing may have changed, or that the change may have happened but was not
// confirmed; a change made twice is made once.
type Store interface {
	// Mark is one cheap operation.
	Mark(ctx context.Context) (Mark, error)
	Read(ctx context.Context) (*Contents, error)
	// Put keeps a text for so long. [ErrFull] means that there are MaxRecords already.
	Put(ctx context.Context, name, value string, life time.Duration) error
	// Delete reports whether there was such a record. Where there is none, which may be
	// because the store has lost it, it is noted as deleted all the same, if there is room, or
	// a node that knows it would put it back.
	Delete(ctx context.Context, name string) (existed bool, err error)
	// Restore puts back what a node has known, where the store has nothing of that
	// name, or an earlier version.
	Restore(ctx context.Context, records []Record) error
}

// ErrFull means that a registry holds MaxRecords.
var ErrFull = errors.New("fastlimit/registry: full")
