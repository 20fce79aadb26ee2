package bucket

import "sync/atomic"

// searchSets bounds the work of a take that finds both of its sets full: the number of
// cache lines that are read in search of room, 2 to 3 µs if there is none. Searches of 64,
// 128 and 256 sets fill a table of 131,072 up to 0.88, 0.93 and 0.95 before the first one
// fails; Buckets() is 0.89 (TestCapacity).
const searchSets = 128

// hop is a step of the search: the bucket with that ID could move to a set
// from the set of the hop before.
type hop struct {
	set  uint64
	id   uint64
	from int // index of the hop before; -1: one of the two sets that need room
}

// makeRoom moves buckets to their other sets so that x or y has room, along the shortest
// path to a set that has some. It returns false if it finds none. The search reads without
// locks, so its result may no longer hold when the buckets are moved; the caller then tries
// again.
func (t *Table) makeRoom(x, y, now uint64) (found bool) {
	var path [searchSets]hop
	path[0], path[1] = hop{set: x, from: -1}, hop{set: y, from: -1}
	n := 2
	for i := 0; i < n; i++ {
		s := &t.sets[path[i].set]
		for j := range s {
			tat := atomic.LoadUint64(&s[j].tat)
			if !t.liveAt(path[i].set, j, tat, now) {
				t.follow(&path, i, now)
				return true
			}
			if n < len(path) {
				id := atomic.LoadUint64(&s[j].tag) ^ tat
				path[n] = hop{set: t.other(path[i].set, id), id: id, from: i}
				n++
			}
		}
	}
	return false
}

// follow moves the buckets of a path, the last one first, so that each finds
// room and no bucket is ever in no set.
func (t *Table) follow(path *[searchSets]hop, last int, now uint64) {
	for i := last; path[i].from >= 0; i = path[i].from {
		if !t.move(path[path[i].from].set, path[i].set, path[i].id, now) {
			return
		}
	}
}

// move moves a bucket to its other set. It reports false if there is no room.
func (t *Table) move(from, to, id, now uint64) bool {
	t.lockBoth(from, to)
	defer t.unlockBoth(from, to)
	i := t.findLocked(from, id)
	if i < 0 || !t.liveAt(from, i, t.sets[from][i].tat, now) {
		return true // gone or drained, so there is room now
	}
	j := t.drainedLocked(to, now)
	home := from
	if t.guestLocked(from, i) {
		home = to
	} else if t.awayOf(home) == maxAway {
		return false
	}
	if j < 0 {
		return false
	}
	// Written there before it is removed here: a lookup, which reads the home
	// first, misses none that leaves home.
	if t.logs != nil {
		t.logs.at(to, j).become(t.logs.at(from, i))
	}
	t.enterLocked(home, to, j, id, t.sets[from][i].tat)
	t.noteLocked(to, j)
	t.freeLocked(from, i)
	return true
}

// enterLocked puts a bucket with that home at place i of set at, in place of one that is
// evicted there.
func (t *Table) enterLocked(home, at uint64, i int, id, tat uint64) {
	t.leaveLocked(at, i)
	if at != home {
		atomic.AddUint32(&t.links[home], 1)
		atomic.OrUint32(&t.links[at], guestBit(i))
		t.markLocked(home, spilled)
	}
	t.markLocked(at, inUse)
	t.sets[at][i].store(id, tat)
}

// freeLocked removes the bucket at place i of set x.
func (t *Table) freeLocked(x uint64, i int) {
	t.leaveLocked(x, i)
	t.sets[x][i].store(0, 0)
}

// leaveLocked subtracts the bucket at place i of set x from the count of its home, if that
// is elsewhere.
func (t *Table) leaveLocked(x uint64, i int) {
	if !t.guestLocked(x, i) {
		return
	}
	atomic.AndUint32(&t.links[x], ^guestBit(i))
	e := &t.sets[x][i]
	atomic.AddUint32(&t.links[t.other(x, e.tag^e.tat)], ^uint32(0))
}

func guestBit(i int) uint32 { return 1 << (countBits + i) }

// guestLocked reports whether the bucket at place i of set x has its home elsewhere.
func (t *Table) guestLocked(x uint64, i int) bool {
	return atomic.LoadUint32(&t.links[x])&guestBit(i) != 0
}

// awayOf returns the number of buckets whose home is set x and that are elsewhere. It does
// not rise while the lock of x is held.
func (t *Table) awayOf(x uint64) uint32 { return atomic.LoadUint32(&t.links[x]) & maxAway }

// markLocked marks set x. Its word is shared with sets of other locks.
func (t *Table) markLocked(x, mark uint64) {
	w, bits := &t.marks[x/marksWord], mark<<(x*markBits&63)
	if atomic.LoadUint64(w)&bits != bits {
		atomic.OrUint64(w, bits)
	}
}
