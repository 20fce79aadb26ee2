// Package selfaudit counts a sample of clients exactly, beside a limiter that serves them, and
// compares what the limiter does to them with what it promises.
//
// Of each client in the sample a [Table] has two levels, in the ticks of the rule's bucket, of
// what the rule has admitted to it:
//
//	high  at least what the client's exact bucket holds
//	low   at most the client's level
//
// A denial is false if what is denied fits high (P1), and an admission is beyond the bound if it
// raises low above that (P2). Whatever is not known for sure is added to high and left out of
// low: what was given back, what was admitted before the client had an entry here, what was
// overtaken on its way to the bucket, a bucket that the table had to evict. So there is no
// false alarm, and where such things happen all the time a fault is noticed later, or not.
//
// # Why high is high enough
//
// A bucket is charged in a [Visit] of its client only, which holds the client's lock, and high
// is charged there with the same cost, as of the same time or a later one. Both are
// TAT = max(TAT, time) + cost, which grows with each argument. high never falls. A new entry has
// what the bucket holds, and so has each when buckets have been charged elsewhere
// ([Table.Doubt]). So what a request finds in the bucket without the lock is below high when it gets the lock.
//
// # Why low is low enough
//
// It counts what was admitted in the order of its readings of the clock alone. The sketch
// was charged with all of that too but for one first-seen unit, so as long as it lets
// the client pass low is below θ·B and that unit. From then on low and bucket are charged
// with the same. A bucket that is empty may have been removed by a later reading than the
// request's, so then what was waited for on the way to it is taken off low.
package selfaudit

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	sets, ways = 64, 4 // 256 clients at a time

	// Sampled is the share of digests, of 2^32, that are audited: 1 in 1024. Digests are keyed, so
	// nobody can choose to be among them.
	Sampled = 1 << 22

	// thin is how many of a client's denials by the table are looked at: 1 in 16. A client that
	// floods would otherwise pay for the lock each time (BenchmarkHotAudited).
	thin = 16
)

// entry is what is known of one client. All fields are guarded by the lock of its set.
type entry struct {
	d         sketch.Digest
	high, low uint64
	last      uint64 // the latest reading of a request
	known     uint64 // from then on low is the client's level, but for what it leaves out
	evictions uint64 // of the rule's table
	doubt     uint64 // the table's, as of when high was read from the bucket
	rule      *Rule  // whose admissions low counts
}

// set is 4 entries with their lock, on cache lines of their own.
type set struct {
	mu      sync.Mutex
	_       [64 - unsafe.Sizeof(sync.Mutex{})%64]byte
	entries [ways]entry
}

// Table has the clients of a sample that share a table of buckets: those of a rule, and of rules
// that go on with its buckets. It is safe for concurrent use. Call [New].
type Table struct {
	sets    [sets]set
	full    uint64        // ticks that no bucket holds more than
	doubt   atomic.Uint64 // until then nobody is judged
	stopped atomic.Bool
	rule    atomic.Pointer[Rule] // whose admissions low counts
	thin    uint32
}

// New returns an empty table for buckets that never hold more than full ticks.
func New(full uint64) *Table {
	return &Table{full: full, thin: thin - 1}
}

// EveryDenial has all denials looked at, for tests.
func (t *Table) EveryDenial() { t.thin = 0 }

// Begin makes r the rule that low is counted for, if that is another one: it begins at nothing.
func (t *Table) Begin(r *Rule) { t.rule.Store(r) }

// Doubt is for buckets that are charged, or emptied, outside of visits until some time at most. No
// client is judged until then, and afterwards as a new one.
func (t *Table) Doubt(until uint64) {
	for {
		if was := t.doubt.Load(); until <= was || t.doubt.CompareAndSwap(was, until) {
			return
		}
	}
}

// Stop ends the judging of denials: from now on somebody charges the buckets who is not audited.
func (t *Table) Stop() { t.stopped.Store(true) }

// Live is how many clients have a level at now.
func (t *Table) Live(now uint64) (n int) {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		for j := range s.entries {
			if e := &s.entries[j]; e.rule != nil && e.high > now {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

func (t *Table) set(d sketch.Digest) *set { return &t.sets[d.ID%sets] }

func (s *set) find(d sketch.Digest) *entry {
	for i := range s.entries {
		if e := &s.entries[i]; e.rule != nil && e.d == d {
			return e
		}
	}
	return nil
}

// enter makes an entry for d where none was yet, or else in place of one that has drained, which
// loses only that its client was known. It returns nil if there is no such place.
func (s *set) enter(d sketch.Digest, late uint64) (place *entry) {
	for i := range s.entries {
		e := &s.entries[i]
		if e.rule == nil {
			place = e
			break
		}
		drained := e.high <= late && e.low <= late && e.last <= late
		if drained && (place == nil || e.last < place.last) {
			place = e
		}
	}
	if place != nil {
		*place = entry{d: d}
	}
	return place
}
