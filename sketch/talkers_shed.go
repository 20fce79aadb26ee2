package sketch

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Denials by a table of buckets come by the million and write to nothing that
// cores share, so chance decides which of them are noted in a TopTalkers: each unit
// with probability 1/g, whatever came before, as g units (see [Grain]).
const (
	// shedRate is how many denials a second are to be noted, which take a lock
	// each: 60 ns, 0.1 % of a core.
	shedRate = 16 << 10
	// shedBudget is how many notes double the grain.
	shedBudget = 4 << 10
)

// chance decides what is noted.
type chance struct {
	seed  uint64 // secret, so that nobody can have others' denials noted
	grain Grain

	dropped atomic.Uint64 // the most that a slot lost at once; see Dropped
}

func (c *chance) init() {
	c.seed = rand.Uint64()
	c.grain.Init(shedRate, shedBudget)
}

// Drawn reports whether a denial of n units, the serial-th of its kind, is to
// be given to Shed. Serials must differ; they may count up.
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

// Shed notes a denial of n units of d, which Drawn has chosen, for as many as
// it stands for, 2^24 at most: for d if that has a slot, else for those of its set that have
// none. They count for no weight.
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

// Grain is how many units a note of Shed may stand for. While it is 1 Shed is
// told all. It falls in Pace only.
func (h *TopTalkers) Grain() uint64 { return h.chance.grain.Mask() + 1 }

// Pace chooses the grain by the units that were shed since the last call, so
// long ago. One goroutine calls it, 10 times a second or once.
func (h *TopTalkers) Pace(passed time.Duration) { h.chance.grain.Pace(passed) }

// Sets is the number of sets, each of which has four slots.
func (h *TopTalkers) Sets() int { return len(h.sets) }

// drop notes units of a client that has lost its slot.
func (c *chance) drop(n uint64) {
	for most := c.dropped.Load(); n > most && !c.dropped.CompareAndSwap(most, n); most = c.dropped.Load() {
	}
}

// Dropped returns the most units, those shed included, that one client which has
// lost its slot since the last call had in the epoch before: they are in no
// Missed, whose clients have lost theirs in the epoch of the units.
func (h *TopTalkers) Dropped() uint64 { return h.chance.dropped.Swap(0) }

// Missed is a number that only grows, and that grows by no less than what any
// one client of the set does of which no slot tells: its units in this epoch,
// and what was told to Shed of it. A client whose slot is not told yet has one
// more, which pending is.
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
