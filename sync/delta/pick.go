package delta

import (
	"cmp"
	"slices"

	"github.com/fastlimit/fastlimit/sketch"
)

// pick is a slot to be told.
type pick struct {
	growth uint64 // that was not told yet
	slot   uint32
	rule   uint16
	size   uint16 // of its entry, bounded above; not kept by the pass
	named  bool   // its client's name goes along
}

// picks are the slots of a tick within a budget of bytes. The buffer is reused,
// so that a tick allocates nothing.
type picks struct {
	heap  []pick // the least growth on top, until sort
	bytes int
	share int // bytes for what grew
	all   int // bytes for all

	rule, slot int // where the pass over all slots goes on
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// entrySize bounds an entry without its name: its numbers may have grown by
// when it is written.
func entrySize(i int, s *sketch.Slot) int {
	const grown = 2
	return uvarintLen(uint64(i)) + uvarintLen(s.Gen) + uvarintLen(s.Count) + uvarintLen(s.Shed) + 8 + 1 + grown
}

// begin starts a tick with a budget for entries: three quarters for what grew,
// the rest for the pass.
func (p *picks) begin(budget int) {
	p.heap, p.bytes, p.share, p.all = p.heap[:0], 0, budget*3/4, budget
}

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
	p.heap = append(p.heap, k)
	p.bytes += int(k.size)
	h := p.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].growth <= h[i].growth {
			return
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (p *picks) pop() {
	h := p.heap
	p.bytes -= int(h[0].size)
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	p.heap = h
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if r := least + 1; r < len(h) && h[r].growth < h[least].growth {
			least = r
		}
		if h[i].growth <= h[least].growth {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// pass adds live slots in turn, with their names, as far as the budget goes: it
// repairs what was lost on the way, and tells those who are new.
func (p *picks) pass(rules []rule) {
	for i := range p.heap {
		k := &p.heap[i]
		rules[k.rule].own[k.slot].picked = picked
		if k.named {
			rules[k.rule].own[k.slot].picked = pickedNamed
		}
	}
	for range p.steps(rules) {
		if o := p.at(rules); o == nil {
			continue
		} else if !p.visit(o) {
			return
		}
		p.slot++
	}
}

// steps are those of a whole pass.
func (p *picks) steps(rules []rule) int {
	n := len(rules)
	for i := range rules {
		n += len(rules[i].own)
	}
	return n
}

// at is the slot that the pass is at; nil on its way from one rule to the next.
func (p *picks) at(rules []rule) *ownSlot {
	if p.rule >= len(rules) {
		p.rule, p.slot = 0, 0
	}
	if own := rules[p.rule].own; p.slot < len(own) {
		return &own[p.slot]
	}
	p.rule, p.slot = p.rule+1, 0
	return nil
}

// visit adds the slot that the pass is at, and reports whether it fits.
func (p *picks) visit(o *ownSlot) bool {
	if o.size == 0 || o.picked == pickedNamed {
		return true
	}
	more := int(o.nameLen)
	if o.picked == notPicked {
		more += int(o.size)
	}
	if p.bytes+more > p.all {
		return false
	}
	if o.picked == notPicked {
		p.heap = append(p.heap, pick{growth: o.waiting, rule: uint16(p.rule), slot: uint32(p.slot)})
	}
	p.bytes += more
	o.picked = pickedNamed
	return true
}

// sort puts the picks in the order in which they are told: rule by rule, what
// grew most first.
func (p *picks) sort() {
	slices.SortFunc(p.heap, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(b.growth, a.growth), cmp.Compare(a.slot, b.slot))
	})
}
