package sketch

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Denials by a table of buckets come by the million and write to nothing that cores share,
// so chance decides which of them are recorded in a TopTalkers: each unit with probability
// 1/g, whatever came before, as g units (see [Grain]).
const (
	// shedRate is how many denials to record per second. Each takes a lock: 60 ns, 0.1 % of
	// a core.
	shedRate = 16 << 10
	// shedBudget is how many notes double the grain.
	shedBudget = 4 << 10
)

// chance decides which denials are recorded.
type chance struct {
	seed  uint64 // secret, so that no client can have others' denials recorded
	grain Grain

	dropped atomic.Uint64 // the most that a slot lost at once; see Dropped
}

func (c *chance) init() {
	c.seed = rand.Uint64()
	c.grain.Init(shedRate, shedBudget)
}

// Drawn reports whether a denial of n units, the serial-th of its kind, should be passed to
// Shed. Serials must differ; they may count up.
func (h *TopTalkers) Drawn(serial, n uint64) bool {
	mask := h.chance.grain.Mask()
	return mask == 0 || mix(serial^h.chance.seed)&mask < n
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, 2014), whose outputs
// for counters pass for independent.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Shed records a denial of n units of d, which Drawn has chosen, as the number that it
// stands for, 2^24 at most: for d if that has a slot, else for the clients of its set
// without one. Denials do not count as weight.
func (h *TopTalkers) Shed(d Digest, n uint64) {
	n = min(max(n, h.Grain()), maxGrain)
	h.chance.grain.Note(n)
	x := h.index(d)
	s := &h.sets[x]
	s.mu.Lock()
	defer s.mu.Unlock()
	way := s.findLocked(d.ID)
	if way < 0 || s.slots[way].count.Load() >= unnamed {
		h.lost[x].shed += n
		return
	}
	s.shed |= 1 << way
	if s.shelter == 0 {
		s.shelter = 1 << way
	}
	h.tenants[x][way].shed += n
}

// Grain returns how many units one call of Shed may stand for. While it is 1 all denials
// are passed to Shed. It falls in Pace only.
func (h *TopTalkers) Grain() uint64 { return h.chance.grain.Mask() + 1 }

// Pace chooses the grain by the units that were shed since the last call, which was passed
// ago. One goroutine calls it, 1 to 10 times a second.
func (h *TopTalkers) Pace(passed time.Duration) { h.chance.grain.Pace(passed) }

// Sets returns the number of sets, each of which has four slots.
func (h *TopTalkers) Sets() int { return len(h.sets) }

// drop records units of a client that has lost its slot.
func (c *chance) drop(n uint64) {
	for most := c.dropped.Load(); n > most && !c.dropped.CompareAndSwap(most, n); most = c.dropped.Load() {
	}
}

// Dropped returns the most units, including shed ones, that one client which has lost its
// slot since the last call had in the previous epoch. Missed does not have them: it has
// units of clients that lost their slots in the epoch of the units.
func (h *TopTalkers) Dropped() uint64 { return h.chance.dropped.Swap(0) }

// Missed returns a number that only grows, and that grows by at least as much as the units
// of any one client of the set that no slot reports: its units in this epoch, and those
// passed to Shed. A client whose slot is not reported yet has one more, which pending is.
func (h *TopTalkers) Missed(set int) (units, pending uint64) {
	s, l := &h.sets[set], &h.lost[set]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots {
		if s.slots[i].count.Load() >= unnamed {
			pending = 1
		}
	}
	return l.missed + s.missed.Load() + l.shed, pending
}
