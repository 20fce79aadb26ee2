package ban

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	ways = 8 // clients in a set, as a word has bytes

	// most is how many clients of a set may be banned at a time, so that others can be
	// counted.
	most = ways - 1

	// slots is the number of parts of Within in which denials are counted: those of the
	// current one and of the 15 before it, so never of more than Within, and at least of
	// 15/16 of it.
	slots = 16

	// NameBytes is the longest name of a client that a table keeps.
	NameBytes = sketch.TalkerNameBytes

	// loadNum / loadDen is how many bans are planned for a set. With that many, each with
	// the choice of two sets, about one in a thousand finds both full (TestHolds).
	loadNum, loadDen = 28, 5

	maxStripes = 256
)

// record is a client that was denied recently, that is banned, or that was banned and is
// remembered. It has the fields that requests read and write, on a separate cache line.
//
// Requests read it without a lock: word first, then the rest, and then word again. Or they
// change word by compare-and-swap, which fails if anything has changed since they read it.
// So they read the fields of one client at one moment.
type record struct {
	// word counts denials in its lower bits: those of the slot and of the ones in past. Any
	// request may add to them. Its other bits change with every other change of the record,
	// under the lock of the set: see open.
	word atomic.Uint64

	pos, id atomic.Uint64 // the digest
	slot    atomic.Uint64 // that word counts in: the time divided by the length of a slot
	end     atomic.Uint64 // of the ban, in ns; 0: there was none

	// Guarded by the lock of the set.
	own    uint64 // end of the last ban by Begin; before end if that is by Impose
	length uint64 // of that one, in ns, after halving; 0: none is remembered
	times  uint32 // bans that are remembered

	_ [64 - 60]byte
}

var _ [0]struct{} = [unsafe.Sizeof(record{}) - 64]struct{}{}

// The bits of a word.
const (
	countBits = 16
	maxCount  = 1<<countBits - 1 // MaxAfter
	known     = 1 << countBits   // the client is remembered for a ban: it may need fewer denials
	busy      = 2 << countBits   // the record is being changed
	version   = 4 << countBits   // counts changes: they take a century to wrap around
)

// back holds the fields that only changes of a record need. Guarded by the lock of the set.
type back struct {
	past   [slots - 1]uint16 // denials in the previous slots, the latest one first
	length uint8             // of name
	name   [NameBytes]byte   // of a client that is or was banned
}

const (
	setBytes = ways*(1+int(unsafe.Sizeof(record{})+unsafe.Sizeof(back{}))) + stripeBytes/stripeSets

	stripeBytes = int(unsafe.Sizeof(stripe{}))
	stripeSets  = 8 // at least so many sets share a stripe
)

// stripe is padded so that two locks never share a cache line.
type stripe struct {
	sync.Mutex

	random uint64 // guarded by the lock
	_      [64 - 16]byte
}

var _ [0]struct{} = [unsafe.Sizeof(stripe{}) - 64]struct{}{}

// Table is a table of clients of one rule, of fixed size; see the package comment. It is
// safe for concurrent use. The zero value is not usable: call [New].
type Table struct {
	// latest is when the last ban ends. While no client is banned, requests read nothing
	// else.
	latest atomic.Int64

	slot  time.Duration   // length of a slot
	marks []atomic.Uint64 // for each set one byte per record: 0 if it is free, else from the digest
	front []record        // the records, set by set
	backs []back          // their other halves
	locks []stripe        // of the sets; a power of two

	begun, full, passed atomic.Uint64 // see Stats
}

// Size returns how many bans fit into so many bytes, at least a few.
func Size(bytes int64) int {
	return int(max(1, (bytes-int64(stripeBytes))/int64(setBytes))) * loadNum / loadDen
}

// Bytes returns the memory of a table that [New] makes for so many bans.
func Bytes(bans int) int64 { return int64(setsFor(bans)*setBytes + stripeBytes) }

func setsFor(bans int) int { return max(1, (bans*loadDen+loadNum-1)/loadNum) }

// New makes a table with room for so many bans at a time, for policies with that Within.
func New(bans int, within time.Duration) *Table { return newTable(setsFor(bans), within) }

func newTable(sets int, within time.Duration) *Table {
	stripes := min(maxStripes, 1<<(bits.Len(uint(max(1, sets/stripeSets)))-1)) // at least 1
	return &Table{
		slot:  within / slots,
		marks: sketch.Memory[atomic.Uint64](sets),
		front: sketch.Memory[record](sets * ways),
		backs: sketch.Memory[back](sets * ways),
		locks: make([]stripe, stripes),
	}
}

// Quiet reports whether no client is banned at now. It takes one load.
func (t *Table) Quiet(now time.Duration) bool { return int64(now) >= t.latest.Load() }

// Banned returns when the ban of d ends, if one is in force at now. It takes no lock and
// writes nothing. It may miss a ban that is being changed at this moment.
func (t *Table) Banned(d sketch.Digest, now time.Duration) (end time.Duration, ok bool) {
	for {
		r, w := t.find(d)
		if r == nil {
			return 0, false
		}
		if end, ok = r.until(w); ok {
			return end, end > now
		}
	}
}

// find returns the record of d and its word, if there is one. It takes no lock: fields read
// from the record are valid only as long as the word is the same, apart from its count.
func (t *Table) find(d sketch.Digest) (r *record, word uint64) {
	for x, y := t.sets(d); ; x = y {
		for m := matches(t.marks[x].Load(), mark(d)); m != 0; m &= m - 1 {
			r = &t.front[place(x, m)]
			if word = r.word.Load(); word&busy == 0 && r.is(d) {
				return r, word
			}
		}
		if x == y {
			return nil, 0
		}
	}
}

func (r *record) is(d sketch.Digest) bool { return r.id.Load() == d.ID && r.pos.Load() == d.Pos }

func (r *record) digest() sketch.Digest { return sketch.Digest{Pos: r.pos.Load(), ID: r.id.Load()} }

// count counts a denial, unless the record has changed since its word was read.
func (r *record) count(word uint64) bool { return r.word.CompareAndSwap(word, word+1) }

// imposed reports whether the ban is by Impose. The lock of the set must be held.
func (r *record) imposed() bool { return r.own < r.end.Load() }

// remembered returns the length that the last ban by Begin counts with at now.
func (r *record) remembered(p *Policy, now time.Duration) time.Duration {
	return p.fade(time.Duration(r.length), now-time.Duration(r.own))
}

// until returns when the ban ends, if the record has not changed since its word was read.
func (r *record) until(word uint64) (end time.Duration, ok bool) {
	end = time.Duration(r.end.Load())
	return end, r.word.Load()^word < busy
}

// sets returns the two sets that a record of d may be in: it is in the one that had more
// room when it was made. Both follow from the digest, of which an address has one half
// only.
func (t *Table) sets(d sketch.Digest) (x, y uint64) {
	const golden = 0x9e3779b97f4a7c15
	n := uint64(len(t.marks))
	x = (d.Pos >> 8 & (1<<32 - 1)) * n >> 32
	if y = (d.ID * golden >> 32) * n >> 32; y == x {
		if y++; y == n {
			y = 0
		}
	}
	return x, y
}

// mark returns the byte of d: never 0, and independent of sets.
func mark(d sketch.Digest) uint64 { return max(1, d.ID>>56) }

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// matches returns a word with the highest bit of each byte set that equals b.
func matches(marks, b uint64) uint64 {
	x := marks ^ b*ones
	return ^(x&^highs + (highs - ones) | x | (highs - ones))
}

// place returns the index of the lowest match in set x.
func place(x, match uint64) int { return int(x)*ways + bits.TrailingZeros64(match)/8 }

// lock locks the sets of d, and returns them.
func (t *Table) lock(d sketch.Digest) (h held) {
	h.x, h.y = t.sets(d)
	a, b := h.x&uint64(len(t.locks)-1), h.y&uint64(len(t.locks)-1)
	h.first, h.second = &t.locks[min(a, b)], &t.locks[max(a, b)]
	h.first.Lock()
	if h.second != h.first {
		h.second.Lock()
	}
	return h
}

// held is the sets of a client whose locks are held.
type held struct {
	x, y          uint64
	first, second *stripe
}

func (h *held) unlock() {
	if h.second != h.first {
		h.second.Unlock()
	}
	h.first.Unlock()
}

// findLocked returns the place of the record of d, or -1.
func (t *Table) findLocked(h *held, d sketch.Digest) int {
	for _, x := range [...]uint64{h.x, h.y} {
		for m := matches(t.marks[x].Load(), mark(d)); m != 0; m &= m - 1 {
			if i := place(x, m); t.front[i].is(d) {
				return i
			}
		}
	}
	return -1
}

// open keeps others from reading the record and from adding to its word until close. It
// returns the word. The lock of the set must be held.
func (r *record) open() (word uint64) {
	for {
		word = r.word.Load()
		if r.word.CompareAndSwap(word, word|busy) {
			return word
		}
	}
}

// close publishes the record, with count denials.
func (r *record) close(word, count uint64) {
	word = word&^(version-1) + version | count
	if r.length > 0 {
		word |= known
	}
	r.word.Store(word)
}
