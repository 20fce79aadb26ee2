package bucket

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	ways = 4 // entries in a set: 16 bytes each, one cache line

	// stripes of the write lock. Writers of one hot bucket share a stripe in
	// any case; for the rest 1024 make a meeting rare.
	stripes = 1024

	// SetBytes is the size of one set, the unit in which a table is sized.
	SetBytes = ways * 16
)

// An entry is two words, read without a lock: tag is ID xor TAT, so that a
// torn pair of old and new matches no ID (but for a chance of 2^-64) and
// counts as absent, which costs one exact check.
type entry struct {
	tag, tat uint64
}

type set [ways]entry

var _ [0]struct{} = [unsafe.Sizeof(set{}) - 64]struct{}{}

// stripe is padded so that two locks never share a cache line.
type stripe struct {
	sync.Mutex

	_ [64 - unsafe.Sizeof(sync.Mutex{})%64]byte
}

// Table is a fixed-size set-associative table of buckets of one [Shape],
// addressed by digest. It is safe for concurrent use: reads take no lock and
// write nothing, so a client that is over its limit is turned away at the
// cost of one cache line that all cores share; writes lock one of 1024
// stripes for a few instructions. The zero value is not usable: call
// [NewTable].
//
// When a set is full the table gives up a drained bucket, or else the one
// with the lowest level, which is counted by [Table.Evictions]: that client
// starts again from an empty bucket. Buckets are keyed by 64-bit IDs; two
// clients share one only if their IDs and set agree.
type Table struct {
	sets []set
	// used has a bit for each set that may hold an undrained bucket. Most sets
	// hold none, and the bits of 500 sets share a cache line: a client that is
	// no suspect is looked up without touching the table (BenchmarkZipf: 20 ns
	// of 90). Bits are set under the set's lock and cleared by Sweep.
	used []uint64

	locks *[stripes]stripe
	shape Shape

	evictions atomic.Uint64 // undrained buckets given up
}

// NewTable returns a table of n sets of 4 buckets.
func NewTable(shape Shape, n int) (*Table, error) {
	t := new(Table)
	if err := t.Init(shape, n); err != nil {
		return nil, err
	}
	return t, nil
}

// Init makes a table of n sets of 4 buckets within another struct. Call it
// before anything else.
func (t *Table) Init(shape Shape, n int) error {
	if n < 1 || uint64(n) > 1<<32 {
		return fmt.Errorf("fastlimit/bucket: %d sets: want 1 to 2^32", n)
	}
	t.sets = sketch.Memory[set](n)
	t.used = sketch.Memory[uint64](n/64 + 1)
	t.locks = new([stripes]stripe)
	t.shape = shape
	return nil
}

// Bytes is the memory of the table.
func (t *Table) Bytes() int {
	return len(t.sets)*SetBytes + len(t.used)*8 + int(unsafe.Sizeof(*t.locks))
}

// Buckets is the number of buckets that fit.
func (t *Table) Buckets() int { return len(t.sets) * ways }

// Evictions counts buckets that were given up before they had drained.
func (t *Table) Evictions() uint64 { return t.evictions.Load() }

// Lookup returns the TAT of d, or 0, the TAT of an empty bucket, if the table
// does not hold it. It takes no lock and writes nothing.
func (t *Table) Lookup(d sketch.Digest) uint64 {
	x, used := t.Place(d)
	if !used {
		return 0
	}
	if tat, ok := t.First(x, d); ok {
		return tat
	}
	return t.Further(x, d)
}

// Place returns the set of d and whether it may hold an undrained bucket, which
// few do. Place, First and Further are Lookup in parts: the first two can be
// inlined.
func (t *Table) Place(d sketch.Digest) (x uint64, used bool) {
	x = t.index(d)
	return x, atomic.LoadUint64(&t.used[x>>6])>>(x&63)&1 != 0
}

// First returns the TAT of d if it is in the first bucket of set x, where most
// are that have one.
func (t *Table) First(x uint64, d sketch.Digest) (tat uint64, ok bool) {
	e := &t.sets[x][0]
	tat = atomic.LoadUint64(&e.tat)
	return tat, atomic.LoadUint64(&e.tag)^tat == d.ID
}

// Further returns the TAT of d from the other buckets of set x, or 0. Unrolled:
// constant places need no check of bounds.
func (t *Table) Further(x uint64, d sketch.Digest) uint64 {
	s, id := &t.sets[x], d.ID
	if tat := atomic.LoadUint64(&s[1].tat); atomic.LoadUint64(&s[1].tag)^tat == id {
		return tat
	}
	if tat := atomic.LoadUint64(&s[2].tat); atomic.LoadUint64(&s[2].tag)^tat == id {
		return tat
	}
	if tat := atomic.LoadUint64(&s[3].tat); atomic.LoadUint64(&s[3].tag)^tat == id {
		return tat
	}
	return 0
}

// Take charges cost to d if it fits. It returns the TAT afterwards and
// whether it fitted; a request that does not fit changes nothing.
func (t *Table) Take(d sketch.Digest, now, cost uint64) (tat uint64, ok bool) {
	mu := t.lock(d)
	mu.Lock()
	e := t.findLocked(d)
	if e != nil {
		tat = e.tat
	}
	if !t.shape.Fits(tat, now, cost) {
		mu.Unlock()
		return tat, false
	}
	tat = Add(tat, now, cost)
	if e == nil {
		e = t.roomLocked(d, now)
	}
	e.store(d.ID, tat)
	t.useLocked(t.index(d))
	mu.Unlock()
	return tat, true
}

// Settle charges cost, which a shared store has admitted, to d whether it fits
// or not, and makes the bucket at least as full as tat says, which the store
// knew afterwards: by maximum, never by sum. A store that has forgotten some
// thus does not make this table forget as well.
func (t *Table) Settle(d sketch.Digest, now, cost, tat uint64) {
	if cost == 0 && tat <= now {
		return
	}
	mu := t.lock(d)
	mu.Lock()
	defer mu.Unlock()
	e, own := t.findLocked(d), uint64(0)
	if e != nil {
		own = e.tat
	}
	if cost > 0 {
		tat = max(tat, Add(own, now, cost))
	}
	if tat <= own {
		return
	}
	if e == nil {
		e = t.roomLocked(d, now)
	}
	e.store(d.ID, tat)
	t.useLocked(t.index(d))
}

// Refund gives back cost that was charged to d and returns the TAT
// afterwards. A bucket that the table no longer holds is empty already.
func (t *Table) Refund(d sketch.Digest, now, cost uint64) uint64 {
	mu := t.lock(d)
	mu.Lock()
	defer mu.Unlock()
	e := t.findLocked(d)
	if e == nil {
		return 0
	}
	tat := Refund(e.tat, now, cost)
	e.store(d.ID, tat)
	return tat
}

// Reset empties the bucket of d.
func (t *Table) Reset(d sketch.Digest) {
	mu := t.lock(d)
	mu.Lock()
	defer mu.Unlock()
	if e := t.findLocked(d); e != nil {
		e.store(d.ID, 0) // keeps its place: see findLocked
	}
}

// Live is the share of entries whose bucket has not drained, over up to sample
// sets spread evenly.
func (t *Table) Live(now uint64, sample int) float64 {
	sample = max(1, min(sample, len(t.sets)))
	step := len(t.sets) / sample
	live := 0
	for i := range sample {
		s := &t.sets[i*step]
		for j := range s {
			if atomic.LoadUint64(&s[j].tat) > now {
				live++
			}
		}
	}
	return float64(live) / float64(sample*ways)
}

// findLocked returns the entry of d or nil. An entry that was never used has
// tag and tat 0 and so looks like the bucket of ID 0, empty. It cannot hide
// that bucket: entries are first used in order and never become unused again.
func (t *Table) findLocked(d sketch.Digest) *entry {
	s := t.set(d)
	for i := range s {
		if s[i].tag^s[i].tat == d.ID {
			return &s[i]
		}
	}
	return nil
}

// roomLocked returns the entry of d's set with the lowest level, which a
// drained bucket always is.
func (t *Table) roomLocked(d sketch.Digest, now uint64) *entry {
	s := t.set(d)
	e := &s[0]
	for i := 1; i < ways; i++ {
		if s[i].tat < e.tat {
			e = &s[i]
		}
	}
	if e.tat > now {
		t.evictions.Add(1)
	}
	return e
}

// Sweep marks sets whose buckets have all drained at now as unused, over part
// of the sets: the part'th of parts. Without it lookups work the same but
// slower, the more sets were ever used.
func (t *Table) Sweep(now uint64, part, parts int) {
	lo, hi := len(t.used)*part/parts, len(t.used)*(part+1)/parts
	for i := lo; i < hi; i++ {
		for w := atomic.LoadUint64(&t.used[i]); w != 0; w &= w - 1 {
			t.sweepSet(uint64(i)<<6|uint64(bits.TrailingZeros64(w)), now)
		}
	}
}

func (t *Table) sweepSet(x, now uint64) {
	mu := &t.locks[x%stripes]
	mu.Lock()
	defer mu.Unlock()
	for i := range t.sets[x] {
		if t.sets[x][i].tat > now {
			return
		}
	}
	atomic.AndUint64(&t.used[x>>6], ^(uint64(1) << (x & 63)))
}

// useLocked marks set x as used. Its word is shared with sets of other locks.
func (t *Table) useLocked(x uint64) {
	if w, bit := &t.used[x>>6], uint64(1)<<(x&63); atomic.LoadUint64(w)&bit == 0 {
		atomic.OrUint64(w, bit)
	}
}

func (t *Table) set(d sketch.Digest) *set {
	return &t.sets[t.index(d)]
}

// index is fastrange over the middle of Pos. All of a set's entries share a
// stripe since the stripe follows from the set.
func (t *Table) index(d sketch.Digest) uint64 {
	return (d.Pos >> 8 & 0xffffffff) * uint64(len(t.sets)) >> 32
}

func (t *Table) lock(d sketch.Digest) *sync.Mutex {
	return &t.locks[t.index(d)%stripes].Mutex
}

// store writes the entry under its lock. Readers that meet it half written
// see an ID that nobody has.
func (e *entry) store(id, tat uint64) {
	atomic.StoreUint64(&e.tat, tat)
	atomic.StoreUint64(&e.tag, id^tat)
}
