package pgstore

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/bucket/step"
)

// numParameters is the number of parameters of the function operate.
const numParameters = 17

// locked is an operation and the advisory lock of its key.
type locked struct {
	op   *bucket.Op
	lock int32
}

// batch is the working memory of one Exec: the operations, in the order in which they are
// passed to the function, and its parameters.
type batch struct {
	ops   []locked
	rows  []row
	names []byte

	locks                                   []int32
	keys                                    [][]byte
	kinds, algorithms                       []int16
	perMicros, units, limits, costs, counts []int64
	floors, backs, dates, dues              []int64
	denials                                 []bool
	parameters                              [numParameters]any
}

// row is the function's answer to one operation.
type row struct {
	granted, reply, now int64
	late                bool
}

func (b *batch) reset() {
	clear(b.ops) // of pointers
	b.ops, b.rows, b.names, b.locks, b.keys, b.denials = b.ops[:0], b.rows[:0], b.names[:0], b.locks[:0], b.keys[:0], b.denials[:0]
	b.kinds, b.algorithms = b.kinds[:0], b.algorithms[:0]
	b.perMicros, b.units, b.limits, b.costs, b.counts = b.perMicros[:0], b.units[:0], b.limits[:0], b.costs[:0], b.counts[:0]
	b.floors, b.backs, b.dates, b.dues = b.floors[:0], b.backs[:0], b.dates[:0], b.dues[:0]
}

// lockOf returns the advisory lock of a key. All nodes compute the same. Keys that share
// one wait for each other, which is all that a collision costs.
func lockOf(key string) int32 { return int32(uint32(xxhash.Sum64String(key))) }

func (b *batch) add(op *bucket.Op) { b.ops = append(b.ops, locked{op, lockOf(op.Key)}) }

// arrange sorts the operations by the locks of their keys, so that all batches take locks
// in one order. Operations on the same key keep their order.
func (b *batch) arrange() {
	slices.SortStableFunc(b.ops, func(x, y locked) int {
		return cmp.Or(cmp.Compare(x.lock, y.lock), cmp.Compare(x.op.Key, y.op.Key))
	})
	for _, o := range b.ops {
		if n := len(b.locks); n == 0 || b.locks[n-1] != o.lock {
			b.locks = append(b.locks, o.lock)
		}
		b.names = append(b.names, o.op.Key...)
	}
	names := b.names
	for _, o := range b.ops {
		n := len(o.op.Key)
		b.keys = append(b.keys, names[:n:n])
		names = names[n:]
	}
}

// fill sets the parameters. clock is nil except in tests.
func (b *batch) fill(dating *remote.Dating, wait time.Duration, clock any) []any {
	for _, o := range b.ops {
		b.addNumbers(o.op, dating.Date(o.op))
	}
	b.parameters = [numParameters]any{
		b.locks, strconv.FormatInt(wait.Milliseconds(), 10), signed(dating.SentDate()), clock,
		b.keys, b.kinds, b.algorithms, b.perMicros, b.units, b.limits, b.costs, b.counts,
		b.floors, b.backs, b.dates, b.dues, b.denials,
	}
	return b.parameters[:]
}

func (b *batch) addNumbers(op *bucket.Op, date uint64) {
	// A bucket whose shape cannot be kept exactly can still be emptied.
	r := step.Request{Kind: op.Kind, PerMicro: 1, Unit: 1, Due: step.NoDue}
	if op.Shape.Portable() {
		r = step.NewRequest(op, date)
	}
	if op.Shape.Windowed() {
		r.Date = r.Window
	}
	b.kinds = append(b.kinds, int16(r.Kind))
	b.algorithms = append(b.algorithms, int16(r.Algorithm))
	b.perMicros = append(b.perMicros, signed(r.PerMicro))
	b.units = append(b.units, signed(r.Unit))
	b.limits = append(b.limits, signed(r.Limit))
	b.costs = append(b.costs, signed(r.Cost))
	b.counts = append(b.counts, signed(r.Count))
	b.floors = append(b.floors, signed(r.Floor))
	b.backs = append(b.backs, signed(r.Back))
	b.dates = append(b.dates, signed(r.Date))
	b.dues = append(b.dues, signed(r.Due))
	b.denials = append(b.denials, r.CountDenied)
}

// signed converts a number below 2^53.
func signed(n uint64) int64 { return int64(n) }
