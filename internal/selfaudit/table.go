// Package selfaudit counts a sample of clients exactly, in parallel to the limiter that serves them, and
// compares what the limiter does to them with what it promises.
//
// For each client in the sample a [Table] has two levels of what the rule has admitted to it, in the ticks of
// the rule's bucket:
//
//	high  at least what the client's exact bucket holds
//	low   at most the client's level
//
// A denial is false if it fits high (P1), and an admission is beyond the bound if it raises low above that
// (P2). Whatever is uncertain is added to high and left out of low: refunds, what was admitted before the
// client had an entry here, what was overtaken on its way to the bucket, and a bucket that the table had to
// evict. So there is no false alarm, and where such things keep happening a fault is noticed later, or never.
//
// # Why high is high enough
//
// A bucket is charged only in a [Visit] of its client, which holds the client's lock, and high is charged
// there with the same cost, as of the same time or a later one. Both are TAT = max(TAT, time) + cost, which
// grows with each argument. high never falls. A new entry starts with what the bucket holds, and so does each
// when buckets have been charged elsewhere ([Table.Doubt]). So what a request finds in the bucket without the
// lock is below high when it gets the lock.
//
// # Why low is low enough
//
// It counts only what was admitted in the order of its clock readings. The sketch was charged with all of
// that too, except for one first-seen unit, so while it lets the client pass low is below θ·B (θ is the
// rule's escalate_at) plus that unit. From then on low and bucket are charged with the same. An empty bucket
// may have been removed by a later reading than the request's, so then the request's wait for it is taken off
// low.
package selfaudit

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fastlimit/fastlimit/sketch"
)

const (
	sets, ways = 64, 4 // 256 clients at a time

	// Sampled is the share of digests, out of 2^32, that are audited: 1 in 1024. Digests are keyed, so nobody
	// can choose to be among them.
	Sampled = 1 << 22

	// thin is the share of a client's denials by the table that are checked: 1 in 16. A flooding client would
	// otherwise pay for the lock each time (BenchmarkHotAudited).
	thin = 16
)

// entry is one client's record. All fields are guarded by the lock of its set.
type entry struct {
	d         sketch.Digest
	high, low uint64
	last      uint64 // the latest reading of a request
	known     uint64 // from then on low is the client's level, except for what it leaves out
	evictions uint64 // of the rule's table
	doubt     uint64 // the table's, as of when high was read from the bucket
	rule      *Rule  // the rule whose admissions low counts
}

// set is 4 entries with their lock, on their own cache lines.
type set struct {
	mu      sync.Mutex
	_       [64 - unsafe.Sizeof(sync.Mutex{})%64]byte
	entries [ways]entry
}

// Table has the sampled clients of a table of buckets: of a rule, and of successors that keep its buckets. It
// is safe for concurrent use. Call [New].
type Table struct {
	sets    [sets]set
	full    uint64        // the most ticks that a bucket holds
	doubt   atomic.Uint64 // nobody is judged until then
	stopped atomic.Bool
	rule    atomic.Pointer[Rule] // whose admissions low counts
	thin    uint32
}

// New returns an empty table for buckets that never hold more than full ticks.
func New(full uint64) *Table {
	return &Table{full: full, thin: thin - 1}
}

// EveryDenial has all denials checked, for tests.
func (t *Table) EveryDenial() { t.thin = 0 }

// Begin makes low count for r. If that is another rule, it restarts at 0.
func (t *Table) Begin(r *Rule) { t.rule.Store(r) }

// Doubt reports that buckets are charged or emptied outside of visits until at most that time. Clients are
// not judged until then, and afterwards as new ones.
func (t *Table) Doubt(until uint64) {
	for {
		if was := t.doubt.Load(); until <= was || t.doubt.CompareAndSwap(was, until) {
			return
		}
	}
}

// Stop ends the judging of denials, because buckets are now charged by somebody who is not audited.
func (t *Table) Stop() { t.stopped.Store(true) }

// Live returns how many clients have a level at now.
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

// enter makes an entry for d in a free place, or replaces one that has drained, which only forgets that its
// client was known. It returns nil if there is neither.
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
