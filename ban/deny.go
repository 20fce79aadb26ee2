package ban

import (
	"math"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Deny counts a denial of d at a time, and reports whether a ban may be due: then call
// [Table.Begin]. It takes one compare-and-swap on the client's own line, unless the client
// is new here or this is its first denial in the slot: then it locks two sets. A denial
// before the end of a ban does not count.
func (t *Table) Deny(p *Policy, d sketch.Digest, at time.Duration) (due bool) {
	slot := uint64(at / t.slot)
	for {
		r, w := t.find(d)
		if r == nil || r.slot.Load() != slot {
			return t.denySlow(p, d, at, slot)
		}
		if uint64(at) < r.end.Load() || w&maxCount == maxCount {
			return true
		}
		if r.count(w) {
			return w&maxCount+1 >= uint64(p.needs(w&known != 0))
		}
	}
}

func (t *Table) denySlow(p *Policy, d sketch.Digest, at time.Duration, slot uint64) (due bool) {
	h := t.lock(d)
	defer h.unlock()
	i := t.findLocked(&h, d)
	if i < 0 {
		if i = t.roomLocked(p, &h, d, at, false); i < 0 {
			t.passed.Add(1)
			return false
		}
		t.enterLocked(i, d, slot)
	}
	r := &t.front[i]
	if at < time.Duration(r.end.Load()) {
		return true
	}
	w := r.open()
	n := t.turnLocked(i, w&maxCount, slot)
	was := r.slot.Load()
	switch {
	case n == maxCount:
	case slot == was:
		n++
	case slot+slots > was: // read before others, which are of a later slot
		t.backs[i].past[was-slot-1]++
		n++
	}
	r.close(w, n)
	return n >= uint64(p.needs(r.length > 0))
}

// turnLocked makes the record, which is open, count in a slot, unless it already counts in
// a later one. It returns how many of its n denials are left.
func (t *Table) turnLocked(i int, n, slot uint64) (left uint64) {
	r, past := &t.front[i], &t.backs[i].past
	was := r.slot.Load()
	if slot <= was {
		return n
	}
	r.slot.Store(slot)
	current := n
	for _, k := range past {
		current -= uint64(k)
	}
	by := slot - was
	if by >= slots {
		*past = [slots - 1]uint16{}
		return 0
	}
	for j := len(past) - 1; j >= 0; j-- {
		switch from := j - int(by); { // below slots
		case from >= 0:
			past[j] = past[from]
		case from == -1:
			past[j] = uint16(current) // at most maxCount
		default:
			past[j] = 0
		}
		left += uint64(past[j])
	}
	return left
}

// enterLocked makes the record at i one of d with no denials.
func (t *Table) enterLocked(i int, d sketch.Digest, slot uint64) {
	r := &t.front[i]
	w := r.open()
	r.pos.Store(d.Pos)
	r.id.Store(d.ID)
	r.slot.Store(slot)
	r.end.Store(0)
	r.own, r.length, r.times = 0, 0, 0
	t.backs[i].past = [slots - 1]uint16{}
	r.close(w, 0)
	t.markLocked(i, mark(d))
}

// markLocked sets the mark of the record at i.
func (t *Table) markLocked(i int, b uint64) {
	m, shift := &t.marks[i/ways], i%ways*8
	m.Store(m.Load()&^(0xff<<shift) | b<<shift)
}

// How a client is chosen to be replaced when both sets of a new client are full. A banned
// client never is.
const (
	samples = 4
	stays   = math.MaxUint64
)

// roomLocked returns a place for a client of the sets that are held, or -1 if there is
// none. It is a free place, in the set that has more of them, or the place of a client with
// few denials. A client with more denials stays with a higher chance, so that a flood of
// clients that are denied once each, however many, does not push out those that are denied
// often. must says that the new client is worth more than all that are not banned.
func (t *Table) roomLocked(p *Policy, h *held, d sketch.Digest, now time.Duration, must bool) int {
	freeX, freeY := matches(t.marks[h.x].Load(), 0), matches(t.marks[h.y].Load(), 0)
	x, free := h.x, freeX
	if bits.OnesCount64(freeY) > bits.OnesCount64(freeX) {
		x, free = h.y, freeY
	}
	if free != 0 {
		return place(x, free)
	}
	random := h.first.draw(d)
	i, least := -1, uint64(stays)
	consider := func(way uint64) {
		x := h.x
		if way&ways != 0 {
			x = h.y
		}
		j := int(x*ways + way%ways)
		if worth := t.worthLocked(p, j, now); worth < least {
			i, least = j, worth
		}
	}
	if !must {
		for k := range uint64(samples) {
			consider(random >> (4 * k))
		}
	}
	if i < 0 {
		for way := range uint64(2 * ways) {
			consider(way)
		}
	}
	// It is replaced with a chance of 1 in least+1.
	if !must && i >= 0 && least > 0 && (random>>32)*(least+1)>>32 != 0 {
		return -1
	}
	return i
}

// forBanLocked returns h without a set that has no room for another ban, unless neither has.
func (t *Table) forBanLocked(h held, now time.Duration) held {
	if t.bannedLocked(int(h.x), now) >= most {
		h.x = h.y
	} else if t.bannedLocked(int(h.y), now) >= most {
		h.y = h.x
	}
	return h
}

// worthLocked returns how many denials a new client needs to replace the record at i: 0 if
// the record has no meaning any more, and stays if it is of a ban.
func (t *Table) worthLocked(p *Policy, i int, now time.Duration) uint64 {
	r := &t.front[i]
	if time.Duration(r.end.Load()) > now {
		return stays
	}
	n := r.word.Load() & maxCount
	if r.slot.Load()+slots <= uint64(now/t.slot) {
		n = 0
	}
	if r.length > 0 && r.remembered(p, now) > 0 {
		n += uint64(p.After)
	}
	return n
}

// draw returns bits that outsiders cannot predict, from a digest and all others before it.
func (s *stripe) draw(d sketch.Digest) uint64 {
	s.random = (s.random ^ d.ID) * 0xd1342543de82ef95
	s.random ^= s.random >> 32
	return s.random
}
