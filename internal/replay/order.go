package replay

import (
	"cmp"
	"net/netip"
	"slices"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/heap"
)

// record is what is kept of a line until it is judged.
type record struct {
	at   int64 // Unix µs
	seq  int64 // number of the line, so that equal times keep their order
	addr [16]byte
	text string // the needed fields, see fields.pack
}

const recordBytes = int64(unsafe.Sizeof(record{}))

var _ [0]struct{} = [recordBytes - 48]struct{}{} // the package comment says 48

func (r *record) client() netip.Addr { return netip.AddrFrom16(r.addr).Unmap() }

func (r *record) bytes() int64 { return recordBytes + int64(len(r.text)) }

func compareRecords(a, b record) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
}

func earlier(a, b *record) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// window is how much older than the newest record one must be to be released from a stream. Lines are written
// when requests end, so it is the longest request whose line still comes in time.
const (
	windowSeconds = 120
	window        = windowSeconds * second
)

// order sorts records by time. At first it holds all of them. Once the budget is
// used up, or from the start for a stream, it releases records before the end, when
// they are older than the newest by the window.
type order struct {
	held     runs     // records from before the window was in place
	recent   []record // records since then, a heap
	budget   int64    // maximum bytes to hold
	used     int64    // bytes of held and recent
	windowed bool     // the window is in place
	ended    bool     // all records have been pushed

	newest   int64 // latest time read
	released int64 // time of the last record released
	started  bool  // a record has been released
	late     int   // records that came after their time had been released
}

// push adds a record. One that is earlier than what was released already takes the
// time of the latest release, so that time never runs backwards for the limiter.
func (o *order) push(r record) {
	if o.started && r.at < o.released {
		o.late++
		r.at = o.released
	}
	if o.len() == 0 || r.at > o.newest {
		o.newest = r.at
	}
	o.used += r.bytes()
	if o.windowed {
		o.recent = heap.Push(o.recent, r, earlier)
		return
	}
	o.held.push(r)
	if o.used > o.budget {
		o.held.sort()
		o.windowed = true
	}
}

// end says that all records have been pushed: pop then releases what is left.
func (o *order) end() {
	if !o.windowed {
		o.held.sort()
	}
	o.ended = true
}

func (o *order) len() int { return o.held.n + len(o.recent) }

// pop releases the next record if it is older than the window, the budget is used up,
// or no more will come.
func (o *order) pop() (record, bool) {
	if o.len() == 0 || !o.windowed && !o.ended {
		return record{}, false
	}
	fromHeld := o.held.n > 0 && (len(o.recent) == 0 || earlier(o.held.first(), &o.recent[0]))
	var r record
	if fromHeld {
		r = *o.held.first()
	} else {
		r = o.recent[0]
	}
	if !o.ended && r.at > o.newest-window && o.used <= o.budget {
		return record{}, false
	}
	if fromHeld {
		o.held.pop()
	} else {
		o.recent = heap.Pop(o.recent, earlier)
	}
	o.used -= r.bytes()
	o.released, o.started = r.at, true
	return r, true
}

// runs holds records in pieces of fixed size, which need no copying as they would in
// one growing slice (TestMemoryOfALine). After sort, it merges the pieces and frees
// each when it is used up.
type runs struct {
	runs [][]record // of runLength, the last one may be shorter; after sort a heap by first record
	n    int        // records held
}

// runLength is 1.5 MiB of records: small beside a log that needs several, and large
// enough that merging compares few heads.
const runLength = 1 << 15

func (s *runs) push(r record) {
	last := len(s.runs) - 1
	if last < 0 || len(s.runs[last]) == runLength {
		s.runs = append(s.runs, make([]record, 0, runLength))
		last++
	}
	s.runs[last] = append(s.runs[last], r)
	s.n++
}

// sort ends the pushing: from here on, first and pop return records in order.
func (s *runs) sort() {
	pieces := s.runs
	s.runs = make([][]record, 0, len(pieces))
	for _, r := range pieces {
		slices.SortFunc(r, compareRecords)
		s.runs = heap.Push(s.runs, r, earlierHead)
	}
}

func earlierHead(a, b *[]record) bool { return earlier(&(*a)[0], &(*b)[0]) }

func (s *runs) first() *record { return &s.runs[0][0] }

// pop drops the first record. It clears its place, which frees the text although the
// piece is still in use.
func (s *runs) pop() {
	head := s.runs[0]
	head[0] = record{}
	s.n--
	if s.runs[0] = head[1:]; len(head) > 1 {
		heap.Fix(s.runs, earlierHead)
	} else {
		s.runs = heap.Pop(s.runs, earlierHead)
	}
}
