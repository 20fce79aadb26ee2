package breakdown

import "slices"

const (
	// slots is how many groups a table has.
	slots = 256
	// places is twice that, so that a search in the index ends soon.
	places = 2 * slots
)

// table counts the groups of one level. The zero value is empty. It is not safe for concurrent use. It has no
// pointers, so clients' text makes no garbage.
type table struct {
	used   int
	index  [places]uint16 // by digest: slot + 1 of the group here, with linear probing; 0: none
	ids    [slots]uint64  // digests of the names
	counts [slots]uint64  // an upper bound for each group
	extra  [slots]uint64  // part of counts: what the slot had when the group took it
	denied [slots]uint64  // of the rest
	names  [slots]name

	least  uint64 // no slot has less, once all are taken
	cursor int    // no slot before it has this little
}

type name struct {
	text [longest]byte
	size uint8
}

// add counts requests of a group.
func (t *table) add(id uint64, text []byte, units uint64, denied bool) {
	place, i := t.find(id)
	if i < 0 {
		i = t.take(place, id, text)
	}
	t.counts[i] += units
	if denied {
		t.denied[i] += units
	}
}

// find returns the slot of a group and its place in the index, or -1 and the place where it would go.
func (t *table) find(id uint64) (place, slot int) {
	for place = home(id); ; place = (place + 1) % places {
		slot = int(t.index[place]) - 1
		if slot < 0 || t.ids[slot] == id {
			return place, slot
		}
	}
}

func home(id uint64) int { return int(id % places) }

// take gives a group a free slot, or the lightest one.
func (t *table) take(place int, id uint64, text []byte) int {
	i := t.used
	if i < slots {
		t.used++
	} else {
		i = t.lightest()
		t.unlist(t.ids[i])
		place, _ = t.find(id)
	}
	t.index[place] = uint16(i + 1)
	t.ids[i], t.extra[i], t.denied[i] = id, t.counts[i], 0
	t.names[i].size = uint8(copy(t.names[i].text[:], text))
	return i
}

// unlist removes a group from the index, and moves up those behind it.
func (t *table) unlist(id uint64) {
	free, _ := t.find(id)
	for place := (free + 1) % places; t.index[place] != 0; place = (place + 1) % places {
		from := home(t.ids[t.index[place]-1])
		if (place-from+places)%places >= (place-free+places)%places {
			t.index[free] = t.index[place]
			free = place
		}
	}
	t.index[free] = 0
}

// lightest returns the slot with the lowest count. Counts only grow, so with many groups the next one is near
// (BenchmarkNote).
func (t *table) lightest() int {
	for {
		for ; t.cursor < slots; t.cursor++ {
			if t.counts[t.cursor] == t.least {
				return t.cursor
			}
		}
		t.least, t.cursor = slices.Min(t.counts[:]), 0
	}
}

// hidden is the most that a group without a slot can have.
func (t *table) hidden() uint64 {
	if t.used < slots {
		return 0
	}
	return t.counts[t.lightest()]
}

// reset forgets all groups.
func (t *table) reset() {
	t.used, t.least, t.cursor = 0, 0, 0
	clear(t.index[:])
	clear(t.counts[:]) // a free slot counts nothing
}
