// Package registry is for small sets of named texts that nodes share and that expire, such
// as the overrides that operators set. A store keeps them. Nodes ask it every second or two
// whether anything has changed, by [Store.Mark], and read everything if so.
//
// The store gives each change a version that is above all before, by its own clock, so the
// last writer wins, whichever node wrote. A deleted text stays for a while as a [Record]
// without a Value. So if a store has lost everything, or its last second, every node may
// send it again what the node knew, in any order, with [Store.Restore]: for each name the
// highest version stays.
package registry

import (
	"context"
	"errors"
	"time"
)

// Bounds of a registry. Records of a store beyond them are skipped, and counted.
const (
	MaxRecords = 10_000
	MaxName    = 1 << 10 // bytes
	MaxValue   = 4 << 10
	MaxLife    = 366 * 24 * time.Hour

	// Grave is how long deletions are remembered at most: longer than it takes all nodes to
	// learn of them.
	Grave = 10 * time.Minute
)

// Record is a named text.
type Record struct {
	Name    string
	Value   string // "": it was deleted
	Version uint64 // of all records of the registry
	Left    time.Duration
}

// Mark distinguishes states of a registry. The zero value is that of one in which nothing
// was ever kept, or that has lost everything.
type Mark struct{ Epoch, Version uint64 }

// Lost reports whether a store that was at m and is at now has forgotten something: it
// started empty, or continues from an earlier state.
func (m Mark) Lost(now Mark) bool {
	return m != Mark{} && (now.Epoch != m.Epoch || now.Version < m.Version)
}

// Contents is what a store had when it was read.
type Contents struct {
	Mark    Mark // from before Records were read, so they may be newer
	Records []Record
	Skipped int // records beyond the bounds, or not readable
}

// Store keeps the records. Implementations are safe for concurrent use. An error means that
// nothing may have changed, or that the change may have happened but was not confirmed. A
// change that is made twice has the effect of one.
type Store interface {
	// Mark returns the current mark, by one cheap operation.
	Mark(ctx context.Context) (Mark, error)
	Read(ctx context.Context) (*Contents, error)
	// Put keeps a text for life. [ErrFull] means that there are already MaxRecords.
	Put(ctx context.Context, name, value string, life time.Duration) error
	// Delete reports whether there was such a record. If there is none, possibly because
	// the store has lost it, a deletion is recorded all the same, if there is room.
	// Otherwise a node that knows the record would put it back.
	Delete(ctx context.Context, name string) (existed bool, err error)
	// Restore puts back records that a node has known, if the store has none with that
	// name, or an earlier version.
	Restore(ctx context.Context, records []Record) error
}

// ErrFull means that a registry holds MaxRecords.
var ErrFull = errors.New("fastlimit/registry: full")
