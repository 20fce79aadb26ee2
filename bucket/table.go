package bucket

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/chain"
	"github.com/fastlimit/fastlimit/sketch"
)

const (
	ways = 4 // entries in a set: 16 bytes each, one cache line

	// stripes is the number of write locks. Writers of one hot bucket share a stripe in any
	// case; for others 1024 make sharing rare.
	stripes = 1024

	// A table for 4·n buckets has n·9/8 sets, so that it is at most 8/9 full, where a
	// search of searchSets sets finds room (TestCapacity). With unlimited searches two
	// candidate sets of four could be 0.98 full.
	spareNum, spareDen = 9, 8

	// setBytes is [Shape.SetBytes] for all shapes except logs.
	setBytes = 77

	// maxSets keeps the arithmetic of places within 64 bits.
	maxSets = 1 << 31
)

// An entry is two words, read without a lock: tag is ID xor TAT, so that a torn pair of old
// and new matches no ID (except with a chance of 2^-64) and counts as absent, which costs
// one exact check. An entry with TAT 0 is free, whatever its tag.
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

// Table is a fixed-size table of buckets of one [Shape], addressed by digest. It is safe
// for concurrent use. Reads take no lock and write nothing, so a client that is over its
// limit is denied at the cost of one cache line that all cores share. Writes lock one of
// 1024 stripes, or two, for a few instructions. A copy shares the buckets with the
// original. The zero value is not usable: call [Table.Init].
//
// # Where a bucket is
//
// A bucket has two candidate sets of four entries: its home, picked by Pos,
// and another, which follows from either of the two and the ID. A new bucket
// goes home if it can, else to the other set; if both are full, buckets in
// them move to their own other sets until there is room (partial-key cuckoo
// hashing: Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo Filter", 2014; the
// search is that of Li, Andersen, Kaminsky, Freedman, "Algorithmic
// Improvements for Fast Concurrent Cuckoo Hashing", 2014). With one set alone
// one in 20 was over-full at half the capacity, and of five clients in one set
// two had no limit.
//
// Each set counts its buckets that live elsewhere, and carries a mark if there
// are any. Only then does a lookup read the other set.
//
// # When the table is full
//
// A table holds Buckets() undrained buckets. When there is no room for another, the bucket
// with the lowest level in its two sets is evicted, and that client starts again with an
// empty bucket. [Table.Evictions] counts the buckets and [Table.Forgiven] the units in
// them: all clients together are admitted no more than that beyond their limits.
//
// Buckets are keyed by 64-bit IDs; two clients share one only if their IDs
// agree and their candidate sets do.
type Table struct {
	sets []set
	// marks has two bits for each set. Most sets have none, and the bits of
	// 256 sets share a cache line: a client that is no suspect is looked up
	// without touching the table (BenchmarkZipf: 20 ns of 90). Bits are set
	// under the set's lock and cleared by Sweep.
	marks []uint64

	locks *[stripes]stripe
	shape Shape

	// links has for each set how many buckets whose home it is are elsewhere (the lower 28
	// bits) and which of its entries are guests, that is, here and not at home (the upper
	// 4). The count rises under the lock of the home and falls under that of the set where
	// the bucket was; the guest bits change under the lock of their set.
	links []uint32
	size  int // sets that were requested

	lost  *lost
	saves *saves
	chain *chain.Node[Table, follower] // of the tables that follow this one
	core  *Table                       // the first copy; alive as long as any
	logs  *logs                        // for a shape that is Logged, else nil

	// plain says that the fast path of Take suffices, because the shape is a bucket or a
	// fixed window.
	plain bool
}

// lost counts evictions.
type lost struct {
	evictions atomic.Uint64 // undrained buckets
	forgiven  atomic.Uint64 // units in them
}

// The marks of a set, which a lookup reads before the set.
const (
	inUse   = 1 << iota // the set may hold an undrained bucket
	spilled             // buckets whose home it is may be elsewhere
)

const (
	markBits  = 2
	marksWord = 64 / markBits // sets in a word

	countBits = 28
	maxAway   = 1<<countBits - 1
)

// Init makes t a table for 4·n buckets. Call it before anything else.
func (t *Table) Init(shape Shape, n int) error {
	return t.init(shape, n, new([stripes]stripe), new(lost))
}

// InitBeside is Init for a small table that shares the locks and the counts of evictions
// with a large one.
func (t *Table) InitBeside(large *Table, shape Shape, n int) error {
	return t.init(shape, n, large.locks, large.lost)
}

func (t *Table) init(shape Shape, n int, locks *[stripes]stripe, lost *lost) error {
	if n < 1 || n > maxSets {
		return fmt.Errorf("fastlimit/bucket: %d sets: want 1 to %d", n, maxSets)
	}
	m := physicalSets(n)
	t.sets = sketch.Memory[set](m)
	t.marks = sketch.Memory[uint64](m/marksWord + 1)
	t.links = sketch.Memory[uint32](m)
	t.locks, t.lost, t.saves = locks, lost, new(saves)
	t.shape, t.size = shape, n
	t.plain = algorithms[shape.algorithm].plain
	if shape.Logged() {
		t.logs = newLogs(&shape, m)
	}
	core := *t
	t.core = &core
	t.chain = chain.New(t.core, join)
	core.chain = t.chain
	return nil
}

// liveAt reports whether the bucket at place i of set x, which has that TAT, has not
// drained.
func (t *Table) liveAt(x uint64, i int, tat, now uint64) bool {
	return t.shape.Live(tat, now) || t.logs != nil && t.logs.live(x, i, tat, now)
}

// Share returns a table over the same buckets for another limit of the same period: a
// window's state holds no limit. Each client must count by only one of the limits. Share
// fails unless the shapes are windows of one kind and period.
func (t *Table) Share(shape Shape) (Table, error) {
	if !shape.Windowed() || shape.period != t.shape.period || shape.algorithm != t.shape.algorithm {
		return Table{}, fmt.Errorf("fastlimit/bucket: a table of windows of %v cannot be shared by one of %v: want one period", t.shape.Period(), shape.Period())
	}
	other := *t
	other.shape = shape
	return other, nil
}

// Buckets returns the number of undrained buckets that the table holds without evictions.
func (t *Table) Buckets() int { return t.size * ways }

// Evictions returns the number of buckets that were evicted before they had drained.
func (t *Table) Evictions() uint64 { return t.lost.evictions.Load() }

// Forgiven returns the number of units in buckets that were evicted before they had
// drained, each bucket's rounded up. All clients together are admitted no more than that
// beyond what they would have been.
func (t *Table) Forgiven() uint64 { return t.lost.forgiven.Load() }

// Lookup returns the TAT of d, or 0, the TAT of an empty bucket, if the table
// does not hold it. It takes no lock and writes nothing. A bucket that is
// moved home meanwhile may be missed, which costs an exact check.
func (t *Table) Lookup(d sketch.Digest) uint64 {
	x, marks := t.LookupSet(d)
	if marks == 0 {
		return 0
	}
	if tat := t.ProbeFirst(x, d); tat != 0 {
		return tat
	}
	return t.ProbeRest(x, marks, d)
}

// LookupLocked is Lookup that misses no bucket.
func (t *Table) LookupLocked(d sketch.Digest) (tat uint64) {
	var h held
	t.hold(&h, d, false)
	if h.i >= 0 {
		tat = t.sets[h.at][h.i].tat
	}
	t.release(&h)
	return tat
}

// LookupSet returns the home of d and its marks. Without marks, which is most common, d has
// no undrained bucket. LookupSet, ProbeFirst and ProbeRest are Lookup in parts, of which
// the first two are inlined: a call of Lookup is a tenth of a denial.
func (t *Table) LookupSet(d sketch.Digest) (x, marks uint64) {
	x = t.index(d)
	return x, atomic.LoadUint64(&t.marks[x/marksWord]) >> (x * markBits & 63) & (inUse | spilled)
}

// ProbeFirst returns the TAT of d if it is in the first entry of set x, where most buckets
// are, or 0.
func (t *Table) ProbeFirst(x uint64, d sketch.Digest) uint64 {
	return t.sets[x][0].of(d.ID)
}

// ProbeRest returns the TAT of d from the other entries of set x, or from its
// other set, or 0.
func (t *Table) ProbeRest(x, marks uint64, d sketch.Digest) uint64 {
	// Unrolled: constant indexes need no bounds checks.
	s := &t.sets[x]
	if tat := s[1].of(d.ID); tat != 0 {
		return tat
	}
	if tat := s[2].of(d.ID); tat != 0 {
		return tat
	}
	if tat := s[3].of(d.ID); tat != 0 || marks&spilled == 0 {
		return tat
	}
	s = &t.sets[t.other(x, d.ID)]
	for i := range s {
		if tat := s[i].of(d.ID); tat != 0 {
			return tat
		}
	}
	return 0
}

// Live returns the number of buckets that have not drained divided by Buckets(), estimated
// over up to sample sets spread evenly. It is above 1 if the table holds more than it
// guarantees.
func (t *Table) Live(now uint64, sample int) float64 {
	sample = max(1, min(sample, len(t.sets)))
	step := len(t.sets) / sample
	live := 0
	for i := range sample {
		s := &t.sets[i*step]
		for j := range s {
			if t.liveAt(uint64(i*step), j, atomic.LoadUint64(&s[j].tat), now) {
				live++
			}
		}
	}
	return float64(live) * float64(len(t.sets)) / (float64(sample) * float64(t.Buckets()))
}

// index returns the home of d: fastrange over the middle of Pos.
func (t *Table) index(d sketch.Digest) uint64 {
	return (d.Pos >> 8 & math.MaxUint32) * uint64(len(t.sets)) >> 32
}

// other returns the other candidate set of the bucket with that ID in set x. It is its own
// inverse, so that a bucket can be moved without knowing which of the two is its home: x +
// other(x) = h modulo the number of sets, where h is drawn from the ID. For an even h two
// sets would be their own others: they become each other's.
func (t *Table) other(x, id uint64) uint64 {
	n := uint64(len(t.sets))
	y := (id*idMix>>32)*n>>32 + n - x
	if y >= n {
		y -= n
	}
	if y == x {
		if y += n / 2; y >= n {
			y -= n
		}
	}
	return y
}

// idMix spreads the ID over the bits that other uses: for an address, Pos is the ID too.
// The golden ratio.
const idMix = 0x9e3779b97f4a7c15

// of returns the TAT if the entry is that of id, or 0.
func (e *entry) of(id uint64) uint64 {
	tat := atomic.LoadUint64(&e.tat)
	if atomic.LoadUint64(&e.tag)^tat != id {
		return 0
	}
	return tat
}

// store writes the entry under its lock. Readers that find it half written see an ID that
// no client has.
func (e *entry) store(id, tat uint64) {
	atomic.StoreUint64(&e.tat, tat)
	atomic.StoreUint64(&e.tag, id^tat)
}
