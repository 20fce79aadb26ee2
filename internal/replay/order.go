package replay

import (
	"cmp"
	"net/netip"
	"slices"
	"unsafe"
)

// record is what is kept of a line until it is judged.
type record struct {
	at   int64 // Unix seconds
	seq  int64 // of the line, so that equal times keep their order
	addr [16]byte
	text string // the fields that rules look at, see fields.pack
}

const recordBytes = int64(unsafe.Sizeof(record{}))

var _ [0]struct{} = [recordBytes - 48]struct{}{} // the package comment says 48

func (r *record) client() netip.Addr { return netip.AddrFrom16(r.addr).Unmap() }

func (r *record) bytes() int64 { return recordBytes + int64(len(r.text)) }

func compareRecords(a, b record) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
}

// order puts records into the order of their times. Without a window nothing
// is released until the end or until the budget is used up; then the window is
// put in place.
type order struct {
	recs   []record // in no order while all is held, then a heap
	budget int64    // bytes to hold at most
	used   int64
	window int64 // seconds
	heap   bool  // records are released before the end

	newest   int64 // time read
	released int64 // time of the last record released
	started  bool  // there was one
	late     int   // records that came after their time was released
}

func newOrder(budget int64, stream bool) *order {
	return &order{budget: budget, window: windowSeconds, heap: stream}
}

const windowSeconds = 120

func (o *order) push(r record) {
	if o.started && r.at < o.released {
		o.late++
		r.at = o.released
	}
	if len(o.recs) == 0 || r.at > o.newest {
		o.newest = r.at
	}
	o.used += r.bytes()
	o.recs = append(o.recs, r)
	switch {
	case o.heap:
		o.up(len(o.recs) - 1)
	case o.used > o.budget:
		o.sort() // which is a heap too
		o.heap = true
	}
}

// pop releases the next record if it may be judged: its window is over or the
// budget used up.
func (o *order) pop() (record, bool) {
	if !o.heap || len(o.recs) == 0 {
		return record{}, false
	}
	if o.recs[0].at > o.newest-o.window && o.used <= o.budget {
		return record{}, false
	}
	return o.take(), true
}

// finish releases all that is left, in order.
func (o *order) finish() []record {
	o.sort()
	return o.recs
}

func (o *order) sort() { slices.SortFunc(o.recs, compareRecords) }

func (o *order) take() record {
	r, last := o.recs[0], len(o.recs)-1
	o.recs[0] = o.recs[last]
	o.recs[last] = record{} // lets go of the text
	o.recs = o.recs[:last]
	o.down()
	o.used -= r.bytes()
	o.released, o.started = r.at, true
	return r
}

// up and down are those of container/heap, which would box every record.
func (o *order) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if compareRecords(o.recs[parent], o.recs[i]) <= 0 {
			return
		}
		o.recs[parent], o.recs[i] = o.recs[i], o.recs[parent]
		i = parent
	}
}

func (o *order) down() {
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(o.recs) {
			return
		}
		if right := least + 1; right < len(o.recs) && compareRecords(o.recs[right], o.recs[least]) < 0 {
			least = right
		}
		if compareRecords(o.recs[i], o.recs[least]) <= 0 {
			return
		}
		o.recs[i], o.recs[least] = o.recs[least], o.recs[i]
		i = least
	}
}
