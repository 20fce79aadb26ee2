package bucket

import (
	"context"
	"errors"
	"time"
)

// Kind is what an [Op] asks a [Store] to do.
type Kind uint8

// The kinds of operations.
const (
	Take     Kind = iota // charge up to Count requests of Cost each
	Peek                 // as Take, but charge nothing
	Refund               // take Cost off the level, once, as Back does
	Reset                // empty the bucket, whatever it holds
	NumKinds             // how many there are
)

// Algorithm is how a bucket counts. A store refuses an [Op] whose algorithm it
// does not know with [ErrAlgorithm], and changes nothing.
type Algorithm uint8

// The algorithms. The zero value is LeakyBucket.
const (
	LeakyBucket Algorithm = iota // [Shape]; what a store computes is bucket/step
)

// Op is one operation on one bucket of a shared store. The store owns it from
// Submit until it has called Done. Ticks are those of Shape.
//
// A store carries out, in one step: Back, then Floor, then what Kind says.
type Op struct {
	Algorithm Algorithm

	Kind  Kind
	Key   string // names rule and client; stores add their own prefix
	Shape Shape  // its Limit may carry slack for requests that bunch on their way
	Cost  uint64 // ticks of one request
	Count uint64 // requests that wait for this answer; at least 1

	// Back is how many ticks of earlier takes to give back before anything
	// else. Whatever gives back or empties a bucket makes the store ignore
	// floors until all that anybody knew before has leaked.
	Back uint64

	// Floor is a level in ticks that the bucket was known to have at least at
	// At. The store takes off what has leaked since, or more, and raises the
	// bucket to the rest: by maximum, never by sum. It brings back what a store
	// has forgotten or was never told. A store that cannot tell how long ago At
	// is ignores it.
	Floor uint64

	// Patience is how long after At the operation may still be carried out.
	// Later the store must not change the bucket, and fails it. 0 means any
	// time. A store that cannot tell fails it too.
	Patience time.Duration

	// At is when Floor was known and Patience began, read from [time.Now]. The
	// zero value means the time of Submit.
	At time.Time

	// Done is called exactly once, from another goroutine, also when nobody
	// waits for the answer any more. It must not block.
	Done func(*Op, Reply, error)
}

// Reply is the outcome of an [Op].
type Reply struct {
	Granted uint64 // of Take and Peek: how many of Count requests fit
	Level   uint64 // ticks, afterwards, at the time of the store
}

// Store is an exact tier that several nodes share. Implementations are safe
// for concurrent use and never block the caller of Submit.
type Store interface {
	// Submit queues op. An error means that it was not queued and Done will
	// not be called: [ErrAway] or [ErrBusy].
	Submit(op *Op) error
	// Close finishes what is queued, or fails it when ctx ends.
	Close(ctx context.Context) error
}

// Errors of Submit.
var (
	// ErrAway tells that the store is known not to answer.
	ErrAway = errors.New("fastlimit/bucket: store is away")
	// ErrBusy tells that the queue is full.
	ErrBusy = errors.New("fastlimit/bucket: store queue is full")
)

// ErrLate tells Done that the operation reached its bucket after [Op.Patience]
// had run out, and has changed nothing.
var ErrLate = errors.New("fastlimit/bucket: too late, not carried out")

// ErrAlgorithm tells Done that the store does not know [Op.Algorithm].
var ErrAlgorithm = errors.New("fastlimit/bucket: the store does not know this algorithm")
