package sketch

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	talkerWays = 4 // slots in a set, whose ids and counts are one cache line

	// TalkerNameBytes is the longest name that a slot of a [TopTalkers] keeps.
	TalkerNameBytes = 40

	// TalkerSlotBytes is the memory of one slot of a [TopTalkers].
	TalkerSlotBytes = int(unsafe.Sizeof(talkerSet{})+talkerWays*unsafe.Sizeof(tenant{})+unsafe.Sizeof(lostUnits{})) / talkerWays

	maxTalkerSlots = 1 << 24

	allLive = 1<<talkerWays - 1

	// unnamed marks the count of a slot whose client was hit once since it took the slot
	// over: it has no tenant yet. In a crowd few clients come back before they lose their
	// slot, and the tenant is a cache miss of 80 ns.
	unnamed = 1 << 63
)

// holds and leastLocked depend on the number of ways.
var _ [0]struct{} = [talkerWays - 4]struct{}{}

// talkerSet is four slots and what they share. A hit of a client with a slot
// touches the first cache line only, any other hit both.
type talkerSet struct {
	slots [talkerWays]struct {
		id    atomic.Uint64 // of its client if the slot is live, else 0; written under mu
		count atomic.Uint64 // units since the client took the slot over, or unnamed with 1
	}

	// missed is m, the most units in this epoch of a client without a slot. Up to room it
	// rises without the lock.
	missed atomic.Uint64
	room   atomic.Uint64 // no more than the least weight of a slot that can be taken; written under mu

	mu   sync.Mutex
	live uint8 // bit i: slot i has a client; guarded by mu, like the next two
	shed uint8 // bit i: its client has been shed since it has the slot
	past uint8 // bit i: its client had it when the epoch began

	// shelter has the bit of the slot that is not taken over in this epoch, if there is
	// one: that of the client that was denied most in the last epoch, or else the first in
	// this one. Denials do not count as weight, so without it the first newcomer would take
	// the slot of a banned client, whatever that sends. There is one in each set, or a
	// flood of banned clients would hide the others. It stays the same for an epoch, or m
	// <= N/4 would not hold.
	shelter uint8

	// base is where weights start: weight = count - base, modulo 2^64, so that a client
	// that inherits a weight has a base below 0. Guarded by mu.
	base [talkerWays]uint64
}

// tenant is what is reported about a slot's client. Guarded by the set's mu.
type tenant struct {
	pos    uint64
	genLen uint64 // generation<<8 | length of name
	shed   uint64
	name   [TalkerNameBytes]byte
}

// lostUnits are units of a set that no slot reports any more. They only grow. Guarded by
// the set's mu. They are separate since only readers of the table and denials use them.
type lostUnits struct {
	missed uint64             // in earlier epochs; see talkerSet.missed
	shed   uint64             // of clients that had no slot, or lost it
	base   [talkerWays]uint64 // tenant.shed when the epoch began
	past   [talkerWays]uint64 // units of the slot in the epoch before; this can fall
}

var (
	_ [0]struct{} = [unsafe.Sizeof(talkerSet{}) - 128]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(talkerSet{}.missed) - 64]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(tenant{}) - 64]struct{}{}
)

// TopTalkers is a table of the heaviest clients of an epoch with their units; see
// the package comment. It is safe for concurrent use; locks are held for a few
// instructions. The zero value is not usable: call [NewTopTalkers].
//
// A hit that looked its slot up before another client took it over may be counted for that
// one. So every bound of the package comment may be off by the units in flight, which are
// the C of promise P2.
type TopTalkers struct {
	sets    []talkerSet
	tenants [][talkerWays]tenant
	lost    []lostUnits
	chance  chance
}

// Slot is a copy of one slot of a [TopTalkers].
type Slot struct {
	Pos    uint64 // Digest.Pos of the client
	Gen    uint64 // grows when another client takes the slot over; 0: never used
	Count  uint64 // units since then; only grows within a generation
	Shed   uint64 // units passed to Shed since then: an estimate, see Grain
	Weight uint64 // upper bound of the client's units in this epoch
	Live   bool   // whether the slot has a client that can be reported; else Name and Pos are stale

	Name    [TalkerNameBytes]byte // as given to Insert, NameLen bytes
	NameLen uint8
}

// NewTopTalkers returns an empty table of that many slots, rounded up to whole sets
// of four.
func NewTopTalkers(slots int) (*TopTalkers, error) {
	if slots < 1 || slots > maxTalkerSlots {
		return nil, fmt.Errorf("fastlimit/sketch: %d slots: want 1 to %d", slots, maxTalkerSlots)
	}
	n := (slots + talkerWays - 1) / talkerWays
	h := &TopTalkers{sets: Memory[talkerSet](n), tenants: Memory[[talkerWays]tenant](n), lost: Memory[lostUnits](n)}
	h.chance.init()
	return h, nil
}

// Slots returns the number of slots.
func (h *TopTalkers) Slots() int { return len(h.sets) * talkerWays }

// Add counts n units of d and reports whether d has a slot. Without one it
// counts nothing: call Insert.
func (h *TopTalkers) Add(d Digest, n uint64) bool {
	slot := h.Find(d)
	if slot >= 0 {
		h.AddTo(slot, n)
	}
	return slot >= 0
}

// Find returns the slot of d, or -1. With AddTo it is an Add in two parts: work between the
// two hides the memory latency.
func (h *TopTalkers) Find(d Digest) int {
	x := h.index(d)
	s := &h.sets[x]
	way := s.find(d.ID)
	if way < 0 || s.slots[way].count.Load() >= unnamed {
		return -1
	}
	if d.ID == 0 {
		return h.findZero(x)
	}
	return x*talkerWays + way
}

// find returns a slot with that ID, or -1. It has no branches, since they would be
// unpredictable.
func (s *talkerSet) find(id uint64) int {
	way := -1
	for i := range s.slots {
		if s.slots[i].id.Load() == id {
			way = i
		}
	}
	return way
}

// findZero is Find for the ID 0, which free slots have too.
func (h *TopTalkers) findZero(x int) int {
	s := &h.sets[x]
	s.mu.Lock()
	defer s.mu.Unlock()
	way := s.findLocked(0)
	if way < 0 || s.slots[way].count.Load() >= unnamed {
		return -1
	}
	return x*talkerWays + way
}

// AddTo counts n units in a slot that Find has just returned.
func (h *TopTalkers) AddTo(slot int, n uint64) {
	h.sets[slot/talkerWays].slots[slot%talkerWays].count.Add(n)
}

// Insert counts n units of d, which Add found to have no slot. d gets one if its set has a
// free one, or one that is lighter than m + n, where m is the most units that the set
// counted for a client without a slot. Otherwise n is added to m. name, cut to
// [TalkerNameBytes], is copied once d can be reported.
func (h *TopTalkers) Insert(d Digest, n uint64, name []byte) {
	x := h.index(d)
	s := &h.sets[x]
	// A client whose slot is unnamed does not pass here: its weight, and so room, is m + 1
	// at most, and room is only set by what takes m up to it.
	room, m := s.room.Load(), s.missed.Load()
	if m+n <= room && s.missed.CompareAndSwap(m, m+n) {
		return
	}
	s.mu.Lock()
	if way, fresh := h.hitLocked(x, d.ID, n); fresh {
		h.nameLocked(x, way, d.Pos, name)
	}
	s.mu.Unlock()
}

// hitLocked counts a hit for its client, or for no client. It returns the client's slot if
// that should get its tenant now.
func (h *TopTalkers) hitLocked(x int, id, n uint64) (way int, fresh bool) {
	s := &h.sets[x]
	if way = s.findLocked(id); way >= 0 {
		return way, s.slots[way].count.Add(n) >= unnamed
	}
	if s.live != allLive {
		way = bits.TrailingZeros8(^s.live)
		h.takeLocked(x, way, id, n)
		return way, true
	}
	way, least := s.leastLocked()
	if s.missed.Load()+n <= least {
		s.missed.Add(n)
		s.room.Store(least)
		return -1, false
	}
	if n > 1 {
		h.takeLocked(x, way, id, n)
		return way, true
	}
	h.takeLocked(x, way, id, n|unnamed)
	return -1, false
}

// takeLocked gives a slot to a client. Until the last line hits of the client do not find
// it and wait for mu; late hits of the previous client count for the new one.
func (h *TopTalkers) takeLocked(x, way int, id, count uint64) {
	s := &h.sets[x]
	if (s.shed|s.past)>>way&1 != 0 {
		h.loseLocked(x, way)
	}
	weight := s.slots[way].count.Swap(count)&^unnamed - s.base[way]
	m := s.missed.Load()
	s.base[way] = -m
	if weight > m {
		s.missed.Add(weight - m) // the previous client has no slot now
	}
	s.live |= 1 << way
	s.slots[way].id.Store(id)
}

// nameLocked records which client has the slot.
func (h *TopTalkers) nameLocked(x, way int, pos uint64, name []byte) {
	h.sets[x].slots[way].count.And(^uint64(unnamed))
	t := &h.tenants[x][way]
	t.genLen = (t.genLen>>8+1)<<8 | uint64(copy(t.name[:], name))
	t.pos = pos
}

// loseLocked forgets what only the slot has about its client, which is about to lose it. In
// a crowd most such clients have nothing of the kind, and its memory is not touched.
func (h *TopTalkers) loseLocked(x, way int) {
	s := &h.sets[x]
	t, l := &h.tenants[x][way], &h.lost[x]
	l.shed += t.shed - l.base[way]
	h.chance.drop(l.past[way])
	t.shed, l.base[way], l.past[way] = 0, 0, 0
	s.shed, s.past = s.shed&^(1<<way), s.past&^(1<<way)
}

// Read copies slot i, 0 to Slots()-1, to s.
func (h *TopTalkers) Read(i int, s *Slot) {
	x, way := i/talkerWays, i%talkerWays
	set, t := &h.sets[x], &h.tenants[x][way]
	set.mu.Lock()
	defer set.mu.Unlock()
	c := set.slots[way].count.Load()
	s.Count, s.Weight = c&^unnamed, c&^unnamed-set.base[way]
	s.Live = set.live>>way&1 != 0 && c < unnamed
	s.Pos, s.Gen, s.Shed = t.pos, t.genLen>>8, t.shed
	s.Name, s.NameLen = t.name, uint8(t.genLen)
	if c >= unnamed {
		s.Gen++ // its value once it is reported
	}
}

// Turn begins a new epoch: weights are reset, and slots whose clients were silent for the
// whole last epoch become free. A client that was only denied, such as a banned one, was
// not silent.
func (h *TopTalkers) Turn() {
	for x := range h.sets {
		h.turn(x)
	}
}

func (h *TopTalkers) turn(x int) {
	s := &h.sets[x]
	s.mu.Lock()
	defer s.mu.Unlock()
	l, most := &h.lost[x], uint64(0)
	s.shelter = 0
	for i := range s.slots {
		c := s.slots[i].count.Load()
		if c&^unnamed == s.base[i] && s.live>>i&1 != 0 && !h.deniedLocked(x, i) {
			s.live &^= 1 << i
			s.slots[i].id.Store(0)
			h.loseLocked(x, i)
			if c >= unnamed {
				s.slots[i].count.And(^uint64(unnamed))
				h.tenants[x][i].genLen += 1 << 8 // as Read reported it
			}
		}
		if s.live>>i&1 != 0 {
			l.past[i] = c&^unnamed - s.base[i]
			if s.shed>>i&1 != 0 {
				shed := h.tenants[x][i].shed
				grown := shed - l.base[i]
				l.past[i] += grown
				l.base[i] = shed
				if grown > most {
					s.shelter, most = 1<<i, grown
				}
			}
			s.past |= 1 << i
		}
		s.base[i] = c &^ unnamed
	}
	s.room.Store(0)
	l.missed += s.missed.Swap(0)
}

// Floor returns the most units in this epoch of one client that no live slot reports.
func (h *TopTalkers) Floor() uint64 {
	most := uint64(0)
	for x := range h.sets {
		s := &h.sets[x]
		hidden := s.missed.Load()
		for i := range s.slots {
			if s.slots[i].count.Load() >= unnamed {
				hidden = s.missed.Load() + 1
			}
		}
		most = max(most, hidden)
	}
	return most
}

// holds reports whether a slot has that ID. It is for callers that expect none to have it,
// and uses branches.
func (s *talkerSet) holds(id uint64) bool {
	return s.slots[0].id.Load() == id || s.slots[1].id.Load() == id ||
		s.slots[2].id.Load() == id || s.slots[3].id.Load() == id
}

// findLocked returns the slot of that ID, or -1.
func (s *talkerSet) findLocked(id uint64) int {
	if !s.holds(id) {
		return -1
	}
	for i := range s.slots { // free ones have ID 0 too
		if s.slots[i].id.Load() == id && s.live>>i&1 != 0 {
			return i
		}
	}
	return -1
}

// weightLocked returns the weight of a slot, within 62 bits.
func (s *talkerSet) weightLocked(way int) uint64 {
	return s.slots[way].count.Load()&^unnamed - s.base[way]
}

// index is fastrange over the middle of Pos.
func (h *TopTalkers) index(d Digest) int {
	return int((d.Pos >> 16 & 0xffffffff) * uint64(len(h.sets)) >> 32)
}
