package sketch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	heavyWays = 4 // slots in a set, whose ids and counts are one cache line

	// HeavyNameBytes is the longest name that a slot of a [Heavy] keeps.
	HeavyNameBytes = 40

	// HeavySlotBytes is the memory of one slot of a [Heavy].
	HeavySlotBytes = int(unsafe.Sizeof(heavySet{})+unsafe.Sizeof(heavyEdge{})+heavyWays*unsafe.Sizeof(tenant{})) / heavyWays

	maxHeavySlots = 1 << 24
)

// heavySet is all that a hit of a client with a slot touches.
type heavySet [heavyWays]struct {
	id    atomic.Uint64 // of a live slot that of its client, else 0; written under the edge's mu
	count atomic.Uint64 // units since the client took the slot over
}

// heavyEdge is what a set needs when a client is taken in, beside the set.
type heavyEdge struct {
	mu   sync.Mutex
	live uint8 // bit i: slot i has a client; guarded by mu

	// base is what weights count from: weight = count - base, modulo 2^64, so
	// that a client that inherits a weight has a base below 0. Guarded by mu.
	base [heavyWays]uint64

	_ [64 - 16 - 8*heavyWays]byte
}

// tenant is what is told of a slot's client. Guarded by the edge's mu, but for
// shed.
type tenant struct {
	pos  uint64
	gen  uint64 // gen<<8 | length of name
	shed atomic.Uint64
	name [HeavyNameBytes]byte
}

// Each of the three is one cache line.
var (
	_ [0]struct{} = [unsafe.Sizeof(heavySet{}) - 64]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(heavyEdge{}) - 64]struct{}{}
	_ [0]struct{} = [unsafe.Sizeof(tenant{}) - 64]struct{}{}
)

// Heavy is a table of the heaviest clients of an epoch with their units: Space-
// Saving in sets of four slots; see the package comment. It is safe for
// concurrent use. The zero value is not usable: call [NewHeavy].
//
// A hit that looks a slot up while another client takes it over may be counted
// for that one. So every bound of the package comment is off by the units in
// flight at most, the C of promise P2; the sum of all weights is exact.
type Heavy struct {
	sets    []heavySet
	edges   []heavyEdge
	tenants [][heavyWays]tenant
}

// Slot is a copy of one slot of a [Heavy].
type Slot struct {
	Pos    uint64 // Digest.Pos of the client
	Gen    uint64 // grows when another client takes the slot over; 0: never used
	Count  uint64 // units since then; only grows within a generation
	Shed   uint64 // units told to Shed since then
	Weight uint64 // upper bound of the client's units in this epoch
	Live   bool   // whether the slot has a client; else the rest is its last one's

	Name    [HeavyNameBytes]byte // as given to Insert, NameLen bytes
	NameLen uint8
}

// NewHeavy returns an empty table of that many slots, rounded up to whole sets
// of four.
func NewHeavy(slots int) (*Heavy, error) {
	if slots < 1 || slots > maxHeavySlots {
		return nil, fmt.Errorf("fastlimit/sketch: %d slots: want 1 to %d", slots, maxHeavySlots)
	}
	n := (slots + heavyWays - 1) / heavyWays
	return &Heavy{sets: Memory[heavySet](n), edges: Memory[heavyEdge](n), tenants: Memory[[heavyWays]tenant](n)}, nil
}

// Slots is the number of slots.
func (h *Heavy) Slots() int { return len(h.sets) * heavyWays }

// Bytes is the memory of the table.
func (h *Heavy) Bytes() int { return h.Slots() * HeavySlotBytes }

// Add counts n units of d and reports whether d has a slot. Without one it
// counts nothing: call Insert.
func (h *Heavy) Add(d Digest, n uint64) bool {
	s := &h.sets[h.index(d)]
	for i := range s {
		if s[i].id.Load() == d.ID {
			if d.ID == 0 {
				return h.addZero(d, n)
			}
			s[i].count.Add(n)
			return true
		}
	}
	return false
}

// addZero is Add for the one ID that free slots have too.
func (h *Heavy) addZero(d Digest, n uint64) bool {
	x := h.index(d)
	e := &h.edges[x]
	e.mu.Lock()
	defer e.mu.Unlock()
	i := h.findLocked(x, d)
	if i < 0 {
		return false
	}
	h.sets[x][i].count.Add(n)
	return true
}

// Insert counts n units of d and gives d a slot if it has none: a free one of
// its set or else the one of least weight, which d inherits. name, cut to
// [HeavyNameBytes], is copied only then.
func (h *Heavy) Insert(d Digest, n uint64, name []byte) {
	if n == 0 {
		return
	}
	x := h.index(d)
	s, e := &h.sets[x], &h.edges[x]
	e.mu.Lock()
	if i := h.findLocked(x, d); i >= 0 {
		s[i].count.Add(n)
		e.mu.Unlock()
		return
	}
	i := h.leastLocked(x)
	// From here on hits of d find the slot. Those that come before the count
	// is swapped are inherited, so that no weight is lost.
	s[i].id.Store(d.ID)
	e.base[i] -= s[i].count.Swap(n)
	e.live |= 1 << i
	t := &h.tenants[x][i]
	t.pos = d.Pos
	if t.shed.Load() != 0 {
		t.shed.Store(0)
	}
	t.gen = (t.gen>>8+1)<<8 | uint64(copy(t.name[:], name))
	e.mu.Unlock()
}

// Shed notes n units of d that were denied elsewhere, if d has a slot. They
// count for no weight.
func (h *Heavy) Shed(d Digest, n uint64) {
	x := h.index(d)
	s := &h.sets[x]
	for i := range s {
		if s[i].id.Load() == d.ID {
			h.tenants[x][i].shed.Add(n)
			return
		}
	}
}

// Read copies slot i, 0 to Slots()-1, to s.
func (h *Heavy) Read(i int, s *Slot) {
	x, way := i/heavyWays, i%heavyWays
	e, t := &h.edges[x], &h.tenants[x][way]
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Count = h.sets[x][way].count.Load()
	s.Weight = s.Count - e.base[way]
	s.Live = e.live>>way&1 != 0
	s.Pos, s.Gen, s.Shed = t.pos, t.gen>>8, t.shed.Load()
	s.Name, s.NameLen = t.name, uint8(t.gen)
}

// Turn begins a new epoch: weights begin anew, and slots whose clients were
// silent for the whole of the last epoch become free.
func (h *Heavy) Turn() {
	for x := range h.sets {
		s, e := &h.sets[x], &h.edges[x]
		e.mu.Lock()
		for i := range s {
			c := s[i].count.Load()
			if c == e.base[i] && e.live>>i&1 != 0 {
				e.live &^= 1 << i
				s[i].id.Store(0)
			}
			e.base[i] = c
		}
		e.mu.Unlock()
	}
}

// Floor is the most units of one client that this epoch may hide: the largest
// of the least weights of sets that are full. A client without a slot has no
// more units in this epoch.
func (h *Heavy) Floor() uint64 {
	most := uint64(0)
	for x := range h.sets {
		e := &h.edges[x]
		e.mu.Lock()
		if e.live == 1<<heavyWays-1 {
			most = max(most, h.weightLocked(x, h.leastLocked(x)))
		}
		e.mu.Unlock()
	}
	return most
}

// findLocked returns the slot of d in set x, or -1.
func (h *Heavy) findLocked(x int, d Digest) int {
	s, live := &h.sets[x], h.edges[x].live
	for i := range s {
		if s[i].id.Load() == d.ID && live>>i&1 != 0 {
			return i
		}
	}
	return -1
}

// leastLocked returns the slot of set x to give to another client: a free one,
// else the one of least weight, and of several the one of the lowest count.
// Without that an epoch would begin by giving up the heaviest.
func (h *Heavy) leastLocked(x int) int {
	s, e := &h.sets[x], &h.edges[x]
	least, weight, count := 0, ^uint64(0), ^uint64(0)
	for i := range s {
		if e.live>>i&1 == 0 {
			return i
		}
		c := s[i].count.Load()
		if w := c - e.base[i]; w < weight || w == weight && c < count {
			least, weight, count = i, w, c
		}
	}
	return least
}

func (h *Heavy) weightLocked(x, i int) uint64 {
	return h.sets[x][i].count.Load() - h.edges[x].base[i]
}

// index is fastrange over the middle of Pos.
func (h *Heavy) index(d Digest) int {
	return int((d.Pos >> 16 & 0xffffffff) * uint64(len(h.sets)) >> 32)
}
