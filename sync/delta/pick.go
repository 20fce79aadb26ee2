package delta

import (
	"cmp"
	"slices"

	"github.com/fastlimit/fastlimit/internal/heap"
	"github.com/fastlimit/fastlimit/sketch"
)

// pick is a slot to be sent since it grew.
type pick struct {
	growth uint64 // that was not sent yet
	slot   uint32
	rule   uint16
	size   uint16 // of its entry, bounded above
}

// picks are the slots that grew most, within a budget of bytes. The buffer is
// reused, so that a tick allocates nothing.
type picks struct {
	heap  []pick // the least growth on top, until sort
	bytes int
	share int
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// entrySize bounds an entry: its numbers may have grown by when it is written.
func entrySize(i int, s *sketch.Slot, named bool) int {
	const grown = 2
	n := uvarintLen(uint64(i)) + uvarintLen(s.Gen) + uvarintLen(s.Count) + uvarintLen(s.Shed) + 8 + 1 + grown
	if named {
		n += int(s.NameLen)
	}
	return n
}

func (p *picks) begin(share int) { p.heap, p.bytes, p.share = p.heap[:0], 0, share }

// offer keeps k if it is among those that grew most and fit.
func (p *picks) offer(k pick) {
	if p.bytes+int(k.size) > p.share && len(p.heap) > 0 && k.growth <= p.heap[0].growth {
		return
	}
	p.push(k)
	for p.bytes > p.share {
		p.pop()
	}
}

func (p *picks) push(k pick) {
	p.heap = heap.Push(p.heap, k, lessGrowth)
	p.bytes += int(k.size)
}

func (p *picks) pop() {
	p.bytes -= int(p.heap[0].size)
	p.heap = heap.Pop(p.heap, lessGrowth)
}

func lessGrowth(a, b *pick) bool { return a.growth < b.growth }

// sort puts the picks in the order in which they are sent: rule by rule, what
// grew most first.
func (p *picks) sort() {
	slices.SortFunc(p.heap, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(b.growth, a.growth), cmp.Compare(a.slot, b.slot))
	})
}
