// Package step defines the computation of every shared store. [Apply] is one operation on
// one bucket: a pure function of the stored state, the store's time and the operation. A
// store that cannot call it repeats it bit for bit in its own language, such as Lua in
// bucket/redisstore, so all numbers are integers that float64 represents exactly. Each
// algorithm is a counter in a separate file. A state that another algorithm wrote counts as
// an empty one.
//
// The order within a step is: refuse late operations, leak, refund, raise to the floor,
// charge.
package step

import (
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Runs reports whether Apply knows an algorithm.
func Runs(a bucket.Algorithm) bool {
	return a == bucket.LeakyBucket || a == bucket.FixedWindow || a == bucket.SlidingWindow || a == bucket.SlidingLog
}

// maxSafe bounds the integers that float64 represents exactly.
const maxSafe = 1<<53 - 1

// NoDue is the [Request.Due] of an operation that is never late.
const NoDue = maxSafe

// Request is a [bucket.Op] in the numbers that a shared store computes with. All
// fields are at most 2^53 - 1, so that float64 represents them exactly.
type Request struct {
	Algorithm bucket.Algorithm

	Kind     bucket.Kind
	PerMicro uint64 // ticks that leak per µs; 0 of a window
	Unit     uint64 // [bucket.Shape.StoredUnit]; of windows and logs the period in µs
	Limit    uint64 // ticks that fit, grace included
	Cost     uint64 // ticks of one request
	Count    uint64 // requests
	Floor    uint64 // least ticks that the bucket held at Date; of the others see [bucket.Op]
	Back     uint64 // ticks to refund first
	Date     uint64 // µs, no later than [bucket.Op.At]; 0: not known
	Sent     uint64 // µs, no later than when it was sent
	Due      uint64 // µs, until when it may be carried out; NoDue: at any time

	Window      uint64 // [bucket.Op.Window]
	CountDenied bool
}

// NewRequest returns the numbers of op. date is a lower bound of op.At in µs of
// the store's clock, 0 if that is not known. Values beyond exact arithmetic are
// clamped, which changes no outcome: a cost above the limit never fits, whatever
// it is. The shape must be [bucket.Shape.Portable].
func NewRequest(op *bucket.Op, date uint64) Request {
	r := Request{
		Kind:     op.Kind,
		PerMicro: op.Shape.PerMicro(),
		Unit:     op.Shape.StoredUnit(),
		Limit:    op.Shape.Most(),
		Cost:     min(op.Cost, maxSafe),
		Count:    min(op.Count, maxSafe),
		Floor:    min(op.Floor, bucket.MaxPortable),
		Back:     min(op.Back, maxSafe),
		Date:     min(date, maxSafe),
		Sent:     min(date, maxSafe),
		Due:      NoDue,
	}
	if op.Patience > 0 {
		r.Due = min(r.Date+uint64(op.Patience/time.Microsecond), NoDue-1)
	}
	if r.Algorithm = op.Shape.Algorithm(); r.Algorithm != bucket.LeakyBucket {
		r.Unit = uint64(op.Shape.Period() / time.Microsecond)
	}
	//exhaustive:enforce
	switch r.Algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket: // as it is
	case bucket.FixedWindow:
		r.Floor = min(op.Floor, bucket.MaxWindowUnits)
	case bucket.SlidingWindow:
		r.Floor = bucket.Pack(bucket.Unpack(op.Floor))
	case bucket.SlidingLog:
		r.Floor = min(op.Floor, r.Limit)
	}
	if op.Shape.Windowed() { // its floor names its window instead of a date
		r.Date, r.Window, r.CountDenied = 0, min(op.Window, maxSafe), op.CountDenied
	}
	return r
}

// State is one bucket at rest. The zero value is an empty bucket.
type State struct {
	Algorithm bucket.Algorithm // that wrote it

	Level    uint64 // ticks when it was written; of a window the count
	Previous uint64 // of a sliding window: the count of the previous one
	Last     uint64 // µs, when it was written; of a window: its number
	Unit     uint64 // ticks of a unit, or µs of the period, when it was written; 0 only in the zero value and for a log
	Quiet    uint64 // µs until which floors are ignored after a refund or reset, or the window in which; 0 otherwise
	Log      Times  // of a sliding log
}

// Result is the outcome of [Apply].
type Result struct {
	Granted uint64
	Level   uint64
	Late    bool  // too late, or dated in the future: nothing has changed
	Write   bool  // the state has to be stored
	TTL     int64 // ms after which the state equals an empty bucket
}

// counter is a state of one algorithm at the time of a request.
type counter interface {
	level() uint64              // that counts against the limit
	reply() uint64              // Result.Level
	refund(ticks uint64) bool   // reports whether there was anything to give back
	raise() bool                // raises it to the floor; reports whether it was lower
	charge(granted uint64) bool // for a take of which granted fit; reports whether that changed it

	// rest returns what to store, and for how many µs it differs from an empty bucket.
	rest(quiet uint64) (s State, lasts uint64)
}

// bucketAt is a state at the time of a request.
type bucketAt struct {
	counter

	quiet uint64 // the current State.Quiet; floors count if it is 0
	mark  uint64 // the State.Quiet that a refund or a reset sets now
	moved bool   // it must be stored, even if nothing changes it
}

// scratch holds what an operation on a leaky bucket, the most common kind, would allocate.
type scratch struct {
	request Request
	leaky   leakyBucket
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// at returns s at the time now.
func (m *scratch) at(s *State, now uint64) bucketAt {
	r := &m.request
	if s.Algorithm != r.Algorithm || r.Kind == bucket.Reset {
		s = &State{}
	}
	//exhaustive:enforce
	switch r.Algorithm {
	case bucket.LeakyBucket, bucket.TokenBucket: // below
	case bucket.FixedWindow:
		return fixedAt(s, now, r)
	case bucket.SlidingWindow:
		return slidingAt(s, now, r)
	case bucket.SlidingLog:
		return logAt(s, now, r)
	}
	return leakyAt(&m.leaky, s, now, r)
}

// Apply applies r to s at the time now in µs, and returns the state afterwards,
// which is to be stored if Result.Write is set.
func Apply(s State, now uint64, r Request) (State, Result) {
	if now > r.Due || now < r.Sent && r.Due < NoDue {
		return s, Result{Late: true}
	}
	m := scratches.Get().(*scratch) // ours
	defer scratches.Put(m)
	m.request = r
	b := m.at(&s, now)
	if r.Kind == bucket.Reset {
		b.quiet, b.moved = b.mark, true
	} else {
		b.amend(&r)
	}
	res := Result{}
	if r.Kind == bucket.Take || r.Kind == bucket.Peek {
		res.Granted = fits(b.level(), &r)
	}
	if r.Kind == bucket.Take && b.charge(res.Granted) {
		b.moved = true
	}
	res.Level = b.reply()
	if !b.moved || r.Kind == bucket.Peek {
		return s, res
	}
	after, lasts := b.rest(b.quiet)
	// One millisecond to round up, and one because Redis counts whole
	// milliseconds for expiry.
	res.Write, res.TTL = true, int64(lasts/1000)+2
	return after, res
}

// amend refunds, then raises to the floor: the floor accounts for what this
// operation gives back, but not for what other nodes have given back.
func (b *bucketAt) amend(r *Request) {
	heard := b.quiet == 0
	back := r.Back
	if r.Kind == bucket.Refund {
		back = r.Cost
	}
	if back > 0 && b.refund(back) {
		b.quiet, b.moved = b.mark, true
	}
	if r.Floor > 0 && heard && b.raise() {
		b.moved = true
	}
}

// fits returns how many of r.Count requests fit on top of level.
func fits(level uint64, r *Request) uint64 {
	switch {
	case level > r.Limit:
		return 0
	case r.Cost == 0:
		return r.Count
	default:
		return min(r.Count, (r.Limit-level)/r.Cost)
	}
}
