package sketch

import "math/bits"

// leastLocked returns the slot of least weight of a full set that is not sheltered, without
// branches as find does.
func (s *talkerSet) leastLocked() (way int, least uint64) {
	weights := [talkerWays]uint64{s.weightLocked(0), s.weightLocked(1), s.weightLocked(2), s.weightLocked(3)}
	if s.shelter != 0 {
		weights[bits.TrailingZeros8(s.shelter)] = maxWeight
	}
	least = min(weights[0]<<2, weights[1]<<2|1, weights[2]<<2|2, weights[3]<<2|3)
	way, least = int(least&3), least>>2
	if least == 0 {
		way = s.idleLocked()
	}
	return way, least
}

// maxWeight is above the weight of any slot.
const maxWeight = 1<<62 - 1

// deniedLocked reports whether the client of a slot was shed in this epoch.
func (h *TopTalkers) deniedLocked(x, way int) bool {
	return h.sets[x].shed>>way&1 != 0 && h.tenants[x][way].shed != h.lost[x].base[way]
}

// idleLocked returns, of the slots that were not hit in this epoch, the one with the lowest
// count. Otherwise an epoch would begin by evicting the heaviest.
func (s *talkerSet) idleLocked() (way int) {
	count := ^uint64(0)
	for i := range s.slots {
		if c := s.slots[i].count.Load() &^ unnamed; c < count && s.shelter>>i&1 == 0 && s.weightLocked(i) == 0 {
			way, count = i, c
		}
	}
	return way
}
