package delta

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/fastlimit/fastlimit/internal/heap"
	"github.com/fastlimit/fastlimit/sketch"
)

// pick is a slot that has grown and is a candidate for this tick.
type pick struct {
	growth uint64 // units not sent yet
	slot   uint32
	rule   uint16
	size   uint16 // upper bound of the entry's size in bytes
}

// picks are the slots that grew most, within a budget of bytes. The buffer is
// reused, so that a tick allocates nothing (TestNoAllocations).
type picks struct {
	heap  []pick // a min-heap by growth, until sort
	bytes int    // sum of the sizes in heap
	share int    // the budget
}

// uvarintLen returns the length of v as a varint: 7 bits per byte, and one byte for 0.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// entrySize returns an upper bound of the entry's size. Counts may grow between scan and
// write, so it allows one more varint byte for each of count and shed.
func entrySize(i int, s *sketch.Slot, named bool) int {
	const grown = 2
	n := uvarintLen(uint64(i)) + uvarintLen(s.Gen) + uvarintLen(s.Count) + uvarintLen(s.Shed) + 8 + 1 + grown
	if named {
		n += int(s.NameLen)
	}
	return n
}

func (p *picks) begin(share int) { p.heap, p.bytes, p.share = p.heap[:0], 0, share }

// offer adds k, then drops the picks of least growth until the rest fit.
func (p *picks) offer(k pick) {
	if p.bytes+int(k.size) > p.share && len(p.heap) > 0 && k.growth <= p.heap[0].growth {
		return
	}
	p.heap = heap.Push(p.heap, k, lessGrowth)
	for p.bytes += int(k.size); p.bytes > p.share; {
		p.bytes -= int(p.heap[0].size)
		p.heap = heap.Pop(p.heap, lessGrowth)
	}
}

func lessGrowth(a, b *pick) bool { return a.growth < b.growth }

// sort puts the picks in sending order: by rule, since each change of rule costs a
// section header, then by growth, largest first.
func (p *picks) sort() {
	slices.SortFunc(p.heap, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(b.growth, a.growth), cmp.Compare(a.slot, b.slot))
	})
}
