package bucket

import (
	"context"
	"errors"
	"time"
)

// Kind is the kind of an [Op].
type Kind uint8

// The kinds of operations.
const (
	Take     Kind = iota // make up to Count charges of Cost each
	Peek                 // as Take, but charge nothing
	Refund               // take Cost off the level, once, as Back does
	Reset                // empty the bucket, whatever it holds
	NumKinds             // the number of kinds
)

// Op is one operation on one bucket of a shared store. The store owns it from
// Submit until it has called Done. Ticks are those of Shape.
//
// A store applies Back, then Floor, then Kind, in one atomic step.
type Op struct {
	Algorithm Algorithm // that of Shape

	Kind  Kind
	Key   string // names rule and client; stores add their own prefix
	Shape Shape  // its Limit may carry slack for requests that bunch on their way
	Cost  uint64 // ticks of one charge
	Count uint64 // number of charges that the waiting requests ask for; at least 1

	// Back is how many ticks of earlier takes to refund before anything else. A refund or a
	// reset makes the store ignore floors until every level that some node knew before has
	// leaked: a floor from before would undo it. A sliding window gives back units of the
	// current period first, then of the previous one; a log its latest ones.
	Back uint64

	// Floor is a level in ticks that the bucket was known to have reached at At. The store
	// subtracts at least what has leaked since and raises the bucket to the rest if it is
	// lower; it never adds the two. A floor restores charges that a store has lost or never
	// got. For a log it is the units of the half period before At, which may be in it
	// already. A store that cannot determine how long ago At was ignores it.
	Floor uint64

	// Window is, for an algorithm that counts in windows, the window by the caller's time
	// ([Window]). Floor, Back and the units that a Refund gives back count only if the
	// store is in it. 0, which no caller is in, means the window that the store is in, and
	// that there is no floor.
	Window uint64

	// CountDenied makes charges that do not fit use up what is left of a fixed window, and
	// count in a sliding one, up to the limit in each period.
	CountDenied bool

	// Patience is how long after At the operation may still be carried out. After that, or
	// if it cannot determine that, the store fails the operation and leaves the bucket
	// alone. 0 means that there is no such limit.
	Patience time.Duration

	// At is when Floor was known and Patience began, read from [time.Now]. The
	// zero value means the time of Submit.
	At time.Time

	// Done is called exactly once, from another goroutine, even if no caller waits for the
	// answer any longer. It must not block, as that would hold up a worker of the store.
	Done func(*Op, Reply, error)
}

// Reply is the outcome of an [Op]. The meaning of Level depends on the algorithm. For a
// fixed window it is the units in the window of Now, for a sliding one both counts
// ([Pack]). For a log it is the units as long as one more fits, and otherwise the limit
// plus the µs until one does.
type Reply struct {
	Granted uint64 // of Take and Peek: how many of Count charges fit
	Level   uint64 // ticks in the bucket afterwards, by the store's clock; see above
	Now     uint64 // that clock when the operation was carried out, in µs since 1970
}

// Store is an exact tier that several nodes share. Implementations are safe
// for concurrent use and never block the caller of Submit.
type Store interface {
	// Runs reports whether the store knows the algorithm of a [Shape]. Every store
	// knows [LeakyBucket]. An [Op] of another one fails with [ErrAlgorithm] and
	// changes nothing.
	Runs(a Algorithm) bool
	// Submit queues op. An error, [ErrAway] or [ErrBusy], means that op was not
	// queued and that Done will not be called.
	Submit(op *Op) error
	// Close completes the queued operations; when ctx ends it fails the rest.
	Close(ctx context.Context) error
}

// Errors of Submit.
var (
	// ErrAway means that the store is known to be unreachable.
	ErrAway = errors.New("fastlimit/bucket: store is away")
	// ErrBusy means that the queue is full.
	ErrBusy = errors.New("fastlimit/bucket: store queue is full")
)

// ErrLate is passed to Done if the operation reached its bucket after [Op.Patience] had run
// out. It has changed nothing.
var ErrLate = errors.New("fastlimit/bucket: too late, not carried out")

// ErrAlgorithm is passed to Done if the store does not run [Op.Algorithm].
var ErrAlgorithm = errors.New("fastlimit/bucket: the store does not know this algorithm")
