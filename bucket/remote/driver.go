package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

// MaxBatch is the maximum number of operations in a batch. It bounds how many one slow
// batch holds up.
const MaxBatch = 128

// Settle takes the outcome of one operation of a batch. Call it from the
// goroutine that Exec runs on. The reply counts only if err is nil.
type Settle func(op *bucket.Op, reply bucket.Reply, err error)

// Driver is one kind of store. Its methods are called from several goroutines
// at once.
type Driver interface {
	// Runs is [bucket.Store.Runs].
	Runs(a bucket.Algorithm) bool

	// Exec carries out a batch of at most MaxBatch operations and settles each of
	// them exactly once before it returns. Operations on the same key are carried
	// out in their order. Exec bounds its own time and does not keep ops.
	//
	// An operation that may have been carried out must not be sent again: a take
	// would be charged twice. One that the store has certainly not carried out
	// may be. One that is late fails with an error of cause [Late], one whose
	// algorithm the driver does not run with [bucket.ErrAlgorithm].
	Exec(ctx context.Context, ops []*bucket.Op, settle Settle)

	// Probe checks that the store can do everything that a take needs, for example by a
	// take from a separate bucket. It bounds its own time.
	Probe(ctx context.Context) error

	// Measure fills trips with round trips to the store, or to its farthest server if it
	// has several. It waits longer than Exec does, on separate connections, so that it
	// delays no batch.
	Measure(ctx context.Context, trips []time.Duration) error

	// Classify gives an error its class. It is called with the driver's own
	// errors, with those of package bucket that Exec settles with, and with
	// [context.DeadlineExceeded], whose class becomes that of slow answers. It
	// never returns nil, and its classes are all in Config.Classes.
	Classify(err error) *Error

	// Close closes the connections. Nothing is called after it.
	Close() error
}

// Cause is the cause of a failure, as far as it decides what to do.
type Cause uint8

// The causes. The zero value is Unknown.
const (
	Unknown       Cause = iota
	Away                // the store may recover without a change
	Late                // not carried out, as it was too late; may also pass without a change
	Misconfigured       // the configuration has to be changed
)

// Class is one kind of failure from a driver's fixed set.
type Class struct {
	Name  string // in metrics and logs
	Cause Cause
	Fix   string // what to do about it; "" if there is nothing to say
}

// String returns the name, or "none" for nil.
func (c *Class) String() string {
	if c == nil {
		return "none"
	}
	return c.Name
}

// Error is a failure of a store. It matches [bucket.ErrAway] if the store may recover
// without a change, and [bucket.ErrLate] if an operation was too late.
//
// An operation that failed may nevertheless have been carried out, unless the cause is
// Late.
type Error struct {
	Package string // the driver, as its errors begin: "fastlimit/redisstore"
	Class   *Class
	Err     error
	Fix     string // what to do
	Key     string // of the record at fault, as the store spells it, or ""
}

// Error returns the class, the error, and the fix if there is one.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s: %s", e.Package, e.Class, e.text())
	if e.Fix != "" {
		s += ": " + e.Fix
	}
	return s
}

// text returns the driver's text, clipped: a server that only claims to be the store may
// have written any length of it.
func (e *Error) text() string { return safetext.Clip(e.Err.Error(), 500) }

// Unwrap returns the driver's own error.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the errors of package bucket.
func (e *Error) Is(target error) bool {
	switch target {
	case bucket.ErrAway:
		return e.Class.Cause == Away || e.Class.Cause == Late
	case bucket.ErrLate:
		return e.Class.Cause == Late
	}
	return false
}

// ProbeTake returns a take from a separate bucket, whose key is that of no rule and client:
// it needs the same privileges as any take. The bucket leaks one unit in a millisecond, so a
// probe leaves nothing behind and always has something to write.
func ProbeTake(bucketName string) *bucket.Op {
	return &bucket.Op{Kind: bucket.Take, Key: "!probe" + bucketName, Shape: probeShape, Cost: probeShape.Unit(), Count: 1}
}

var probeShape, _ = bucket.NewShape(1000, time.Second, 1<<20)

// Unportable returns why a store that computes with float64 cannot keep a bucket, or nil if
// it can.
func Unportable(s *bucket.Shape) error {
	switch {
	case s.Portable():
		return nil
	case s.Logged():
		return fmt.Errorf("log of %d units: want at most %d, or a sliding window", s.Limit(), bucket.MaxPortableLog)
	}
	return fmt.Errorf("limit of %d ticks: want at most 2^52, use a smaller burst", s.Limit())
}
