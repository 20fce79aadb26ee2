// Package step defines what every shared store computes. [Apply] is one operation
// on one bucket: a pure function of the stored state, the store's time and the
// operation. A store that cannot call it repeats it bit for bit in its own
// language, such as Lua in bucket/redisstore, so all numbers are integers that
// float64 represents exactly. It covers [bucket.LeakyBucket], here, and
// [bucket.FixedWindow], in window.go. A state that another algorithm wrote counts as
// an empty one.
//
// The order within a step is: refuse what is late, leak, refund, raise to the
// floor, charge.
package step

import (
	"math"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Runs reports whether Apply knows an algorithm.
func Runs(a bucket.Algorithm) bool { return a == bucket.LeakyBucket || a == bucket.FixedWindow }

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
	Unit     uint64 // ticks of one unit; of a window its period in µs
	Limit    uint64 // ticks that fit, grace included
	Cost     uint64 // ticks of one request
	Count    uint64 // requests
	Floor    uint64 // least ticks that the bucket held at Date
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
		Unit:     op.Shape.Unit(),
		Limit:    op.Shape.Limit() + op.Shape.Grace(),
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
	if op.Shape.Windowed() {
		r.Algorithm, r.Unit = op.Shape.Algorithm(), uint64(op.Shape.Period()/time.Microsecond)
		r.Floor, r.Date = min(op.Floor, bucket.MaxWindowUnits), 0 // it is not aged
		r.Window, r.CountDenied = min(op.Window, maxSafe), op.CountDenied
	}
	return r
}

// State is one bucket at rest. The zero value is an empty bucket.
type State struct {
	Algorithm bucket.Algorithm // that wrote it

	Level uint64 // ticks when it was written
	Last  uint64 // µs, when it was written
	Unit  uint64 // ticks of one unit when it was written; 0 only in the zero value
	Quiet uint64 // µs, until when floors are ignored after a refund or reset; 0 otherwise
}

// Result is the outcome of [Apply].
type Result struct {
	Granted uint64
	Level   uint64
	Late    bool  // too late, or dated in the future: nothing has changed
	Write   bool  // the state has to be stored
	TTL     int64 // ms after which the state equals an empty bucket
}

// Apply applies r to s at the time now in µs, and returns the state afterwards,
// which is to be stored if Result.Write is set.
func Apply(s State, now uint64, r Request) (State, Result) {
	if now > r.Due || now < r.Sent && r.Due < NoDue {
		return s, Result{Late: true}
	}
	if s.Algorithm != r.Algorithm {
		s = State{}
	}
	if r.Algorithm == bucket.FixedWindow {
		return applyWindow(s, now, r)
	}
	// After a refund or a reset, until every level known before has leaked; see
	// Shape.MaxDrain.
	quietUntil := min(now+2*(r.Limit/r.PerMicro)+2, maxSafe)
	if r.Kind == bucket.Reset {
		return store(0, quietUntil, now, r, Result{})
	}
	level, moved := levelAt(s, now, r)
	quiet := min(s.Quiet, quietUntil) // larger if the clock has stepped back since
	if quiet <= now {
		quiet = 0
	}
	// The floor accounts for what this operation gives back, but not for what
	// other nodes have given back.
	floor := uint64(0)
	if quiet == 0 && r.Date > 0 {
		floor = aged(r.Floor, r.Date, now, r.PerMicro)
	}
	back := r.Back
	if r.Kind == bucket.Refund {
		back = r.Cost
	}
	if back > 0 && level > 0 {
		level, quiet, moved = level-min(level, back), quietUntil, true
	}
	if floor > level {
		level, moved = floor, true
	}
	res := Result{Level: level}
	switch r.Kind {
	case bucket.Peek:
		res.Granted = fits(level, r)
		return s, res
	case bucket.Take:
		res.Granted = fits(level, r)
		charge := res.Granted * r.Cost
		level, moved = level+charge, moved || charge > 0
	}
	if res.Level = level; !moved {
		return s, res
	}
	return store(level, quiet, now, r, res)
}

// store returns what is to be stored.
func store(level, quiet, now uint64, r Request, res Result) (State, Result) {
	res.Write = true
	// One millisecond to round up, and one because Redis counts whole
	// milliseconds for expiry.
	res.TTL = int64(level/(r.PerMicro*1000)) + 2
	if quiet <= now { // only where maxSafe has clamped it
		quiet = 0
	} else {
		res.TTL = max(res.TTL, int64((quiet-now)/1000)+2)
	}
	return State{Level: level, Last: now, Unit: r.Unit, Quiet: quiet}, res
}

// levelAt returns the level at now and whether the clock has stepped back since s
// was written. If it has, no time has passed, and s must be written with the new
// time, or the bucket would not leak until the clock has caught up.
func levelAt(s State, now uint64, r Request) (level uint64, moved bool) {
	if s.Level == 0 {
		return 0, false
	}
	level = s.Level
	if s.Unit != r.Unit {
		level = rescale(level, s.Unit, r.Unit)
	}
	if now < s.Last {
		return level, true
	}
	return aged(level, s.Last, now, r.PerMicro), false
}

// aged returns what is left at now of a level at date, 0 if date is in the future.
func aged(level, date, now, perMicro uint64) uint64 {
	if now < date {
		return 0
	}
	// The clamp keeps the product near level, so that float64 has it exactly.
	dt := min(now-date, level/perMicro+1)
	return level - min(level, dt*perMicro)
}

// rescale converts a level to another rate: the units stay, the ticks change. It
// rounds down, once per change of rate; nothing else rounds a level.
func rescale(level, from, to uint64) uint64 {
	units := float64(level) / float64(from)
	return uint64(min(math.Floor(float64(units*float64(to))), bucket.MaxPortable))
}

// fits is how many of r.Count requests fit on top of level.
func fits(level uint64, r Request) uint64 {
	switch {
	case level > r.Limit:
		return 0
	case r.Cost == 0:
		return r.Count
	default:
		return min(r.Count, (r.Limit-level)/r.Cost)
	}
}
