package memstore

import (
	"encoding/binary"
	"math"

	"github.com/fastlimit/fastlimit/bucket"
)

// maxSafe is the largest integer up to which float64 has them all.
const maxSafe = 1<<53 - 1

// Request is a [bucket.Op] in plain numbers, as a shared store computes with
// it. All fields are at most 2^53 - 1, so that they are the same in float64.
type Request struct {
	Kind     bucket.Kind
	PerMicro uint64 // ticks that leak per µs
	Unit     uint64 // ticks of one unit
	Limit    uint64 // ticks that fit, grace included
	Cost     uint64 // ticks of one request
	Count    uint64 // requests
	Floor    uint64 // ticks that are in the bucket at least
}

// NewRequest returns the numbers of op. What exceeds the range of exact
// arithmetic is brought to a value with the same outcome: a cost above the
// limit never fits, whatever it is. The shape must be [bucket.Shape.Portable].
func NewRequest(op *bucket.Op) Request {
	return Request{
		Kind:     op.Kind,
		PerMicro: op.Shape.PerMicro(),
		Unit:     op.Shape.Unit(),
		Limit:    op.Shape.Limit() + op.Shape.Grace(),
		Cost:     min(op.Cost, maxSafe),
		Count:    min(op.Count, maxSafe),
		Floor:    min(op.Floor, bucket.MaxPortable),
	}
}

// State is one bucket at rest. The zero value is an empty bucket.
type State struct {
	Level uint64 // ticks when it was written; 0 only in the zero value
	Last  uint64 // µs, when it was written
	Unit  uint64 // ticks of one unit when it was written
}

// stateVersion is the first byte of a stored state; Level, Last and Unit follow
// as float64, little endian. Text would cost Redis more than the arithmetic.
const (
	stateVersion = 1
	stateBytes   = 1 + 3*8
)

// Encode returns the state as it is stored.
func (s State) Encode() string {
	b := append(make([]byte, 0, stateBytes), stateVersion)
	for _, n := range [...]uint64{s.Level, s.Last, s.Unit} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return string(b)
}

// ParseState reads a stored state and reports whether v is one.
func ParseState(v string) (State, bool) {
	if len(v) != stateBytes || v[0] != stateVersion {
		return State{}, false
	}
	var n [3]uint64
	for i := range n {
		f := math.Float64frombits(binary.LittleEndian.Uint64([]byte(v[1+8*i:])))
		if !(f >= 0 && f <= maxSafe && f == math.Floor(f)) { // not NaN either
			return State{}, false
		}
		n[i] = uint64(f)
	}
	s := State{Level: n[0], Last: n[1], Unit: n[2]}
	return s, s.Unit > 0 && s.Level <= bucket.MaxPortable
}

// Result is the outcome of [Step].
type Result struct {
	Granted uint64
	Level   uint64
	Write   bool  // the state has to be stored
	TTL     int64 // ms until the bucket is certainly empty; 0 if it is now: delete it
}

// Step applies r to s at the time now in µs. It is what the scripts of the
// Redis store do, bit for bit.
func Step(s State, now uint64, r Request) (State, Result) {
	if r.Kind == bucket.EmptyOut {
		return State{}, Result{Write: true}
	}
	level, moved := settle(s, now, r)
	if r.Floor > level {
		level, moved = r.Floor, true
	}
	res := Result{Level: level}
	switch r.Kind {
	case bucket.Take, bucket.Peek:
		res.Granted = fits(level, r)
		if r.Kind == bucket.Peek {
			return s, res
		}
		charge := res.Granted * r.Cost
		res.Level = level + charge
		res.Write = moved || charge > 0
	case bucket.GiveBack:
		res.Level = level - min(level, r.Cost)
		res.Write = moved || level > 0 || s != State{}
	}
	if !res.Write {
		return s, res
	}
	if res.Level == 0 {
		return State{}, res
	}
	// A millisecond to round up, another since the server's clock for
	// expiry counts whole ones.
	res.TTL = int64(res.Level/(r.PerMicro*1000)) + 2
	return State{Level: res.Level, Last: now, Unit: r.Unit}, res
}

// settle returns the level at now and whether the clock has stepped back since
// s was written, in which case no time has passed and s must be rebased, or
// the bucket would not leak until the clock has caught up.
func settle(s State, now uint64, r Request) (level uint64, moved bool) {
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
	// The clamp keeps the product near level, so that float64 has it exactly.
	dt := min(now-s.Last, level/r.PerMicro+1)
	return level - min(level, dt*r.PerMicro), false
}

// rescale converts a level to another rate: units stay, ticks change. It is
// the one place where a level is rounded, downwards, once per change of rate.
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
