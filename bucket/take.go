package bucket

import (
	"math"
	"sync"

	"github.com/fastlimit/fastlimit/sketch"
)

// maxTries bounds how often a take makes room in a table that has some, only to find it
// taken.
const maxTries = 16

// Take charges cost to d if it fits. It returns the TAT afterwards and whether it fit; a
// request that does not fit changes nothing.
func (t *Table) Take(d sketch.Digest, now, cost uint64) (tat uint64, ok bool) {
	if !t.plain {
		return t.charge(d, charge{now: now, cost: cost})
	}
	x := t.index(d)
	mu := t.lock(x)
	mu.Lock()
	// Most takes are of a bucket at home, or of a new one that finds room there and has
	// none elsewhere. They end here: BenchmarkTake, a third of the time.
	i := t.findLocked(x, d.ID)
	if i >= 0 {
		e := &t.sets[x][i]
		if tat = e.tat; t.shape.level(tat, now)+cost <= t.shape.most {
			tat, ok = Add(tat, now, cost), true
			e.store(d.ID, tat)
			t.markLocked(x, inUse)
		}
		next := t.chain.Edge()
		if ok {
			mark(next, d)
		}
		if mu.Unlock(); ok && next != nil {
			t.passCharge(next, d, charge{now: now, cost: cost})
		}
		return tat, ok
	}
	if t.awayOf(x) == 0 {
		if ok = cost <= t.shape.most; ok {
			i = t.drainedLocked(x, now)
		}
		if !ok || i >= 0 {
			if ok {
				tat = Add(0, now, cost)
				t.enterLocked(x, x, i, d.ID, tat)
			}
			next := t.chain.Edge()
			if ok {
				mark(next, d)
			}
			if mu.Unlock(); ok && next != nil {
				t.passCharge(next, d, charge{now: now, cost: cost})
			}
			return tat, ok
		}
	}
	mu.Unlock()
	return t.charge(d, charge{now: now, cost: cost})
}

// Settle charges cost, which a shared store has admitted, to d whether it fits or not. It
// also makes the bucket at least as full as tat, which the store reported afterwards: by
// maximum, never by sum. So a store that has forgotten some charges does not make this
// table forget them as well. Settle returns the TAT afterwards.
func (t *Table) Settle(d sketch.Digest, now, cost, tat uint64) uint64 {
	if cost == 0 && !t.shape.Live(tat, now) {
		return t.Lookup(d)
	}
	tat, _ = t.charge(d, charge{now: now, cost: cost, least: tat, must: true})
	return tat
}

// TakeCounted is Take for a request that counts even if it does not fit: then nothing more
// fits a fixed window. It is judged and counted in one step, so it counts in the window in
// which it was judged, whatever other charges arrive meanwhile. It is for shapes that are
// Windowed.
func (t *Table) TakeCounted(d sketch.Digest, now, cost uint64) (tat uint64, ok bool) {
	return t.charge(d, charge{now: now, cost: cost, counted: true})
}

// charge is a charge of a bucket.
type charge struct {
	now, cost uint64
	least     uint64 // the minimum TAT of the bucket afterwards
	must      bool   // charged even if it does not fit
	counted   bool   // filled up if it does not fit
	denied    bool   // it did not fit, and was counted
	times     *times // of a log that is taken over; see Table.TakeOver
}

// to returns the TAT of a bucket after the charge.
func (c *charge) to(shape *Shape, tat uint64) (after uint64, ok bool) {
	c.denied = false
	switch {
	case !c.must && !shape.Fits(tat, c.now, c.cost):
		if c.denied = c.counted; c.denied {
			return shape.exhausted(tat, c.now, c.cost), true
		}
		return tat, false
	case c.must && shape.Windowed():
		return shape.Join(shape.settle(tat, c.now, c.cost), c.least), true
	case shape.Windowed():
		return shape.add(tat, c.now, c.cost), true
	}
	after = tat
	if c.cost > 0 {
		after = Add(tat, c.now, c.cost)
	}
	return max(after, c.least), true
}

func (t *Table) charge(d sketch.Digest, c charge) (tat uint64, ok bool) {
	var h held
	for tries, both := 0, false; ; {
		t.hold(&h, d, both)
		if h.i >= 0 && h.at != h.x && !t.liveAt(h.at, h.i, t.sets[h.at][h.i].tat, c.now) {
			t.freeLocked(h.at, h.i) // drained: it may move home
			h.i = -1
		}
		if h.i >= 0 {
			e := &t.sets[h.at][h.i]
			if tat, ok = t.after(&c, h.at, h.i, e.tat); ok {
				if tat != e.tat {
					e.store(d.ID, tat)
				}
				t.markLocked(h.at, inUse)
			}
			break
		}
		if tat, ok = t.first(&c); tat == 0 {
			break // denied, or nothing to charge
		}
		at, i := t.roomLocked(&h, c.now)
		if i < 0 && !h.both {
			t.release(&h)
			both = true
			continue
		}
		if i < 0 && tries < maxTries {
			t.release(&h)
			if tries++; !t.makeRoom(h.x, h.y, c.now) {
				tries = maxTries
			}
			continue
		}
		if i < 0 {
			at, i = t.lowestLocked(&h, c.now)
			t.evictLocked(at, i, c.now)
		}
		if t.logs != nil {
			t.logs.at(at, i).clear()
			tat, ok = t.after(&c, at, i, logged)
		}
		t.enterLocked(h.x, at, i, d.ID, tat)
		break
	}
	next := t.chain.Edge()
	if ok {
		mark(next, d)
	}
	if t.release(&h); ok && next != nil {
		t.passCharge(next, d, c)
	}
	return tat, ok && !c.denied
}

// Refund gives back cost that was charged to d and returns the TAT
// afterwards. A bucket that the table no longer holds is empty already.
func (t *Table) Refund(d sketch.Digest, now, cost uint64) uint64 {
	var h held
	t.hold(&h, d, false)
	next, tat, dropped := t.chain.Edge(), uint64(0), uint64(0)
	if h.i >= 0 {
		e := &t.sets[h.at][h.i]
		dropped = droppedOf(next, d, e.tat, now)
		if tat = t.refunded(h.at, h.i, e.tat, now, cost); tat == 0 {
			t.freeLocked(h.at, h.i)
		} else {
			e.store(d.ID, tat)
		}
	}
	if t.release(&h); next != nil {
		t.passRefund(next, d, now, cost, dropped)
	}
	return tat
}

// Reset empties the bucket of d.
func (t *Table) Reset(d sketch.Digest) {
	var h held
	t.hold(&h, d, false)
	if h.i >= 0 {
		t.freeLocked(h.at, h.i)
	}
	next := t.chain.Edge()
	if t.release(&h); next != nil {
		t.passReset(next, d)
	}
}

// held is a bucket whose locks are held: that of its home and, if both is set, that of its
// other set. It stays where it is, or absent, until release.
type held struct {
	x, y uint64 // home and other set
	at   uint64 // the set where it is, and
	i    int    // its place there, or -1
	both bool
}

// hold locks what is needed to determine where the bucket of d is, and both sets if both is
// set.
func (t *Table) hold(h *held, d sketch.Digest, both bool) {
	h.x = t.index(d)
	h.at = h.x
	if !both {
		t.lock(h.x).Lock()
		// Unless a bucket is elsewhere, which cannot change while this lock is held, the
		// bucket of d is here or nowhere.
		if h.i = t.findLocked(h.x, d.ID); h.i >= 0 || t.awayOf(h.x) == 0 {
			h.both = false
			return
		}
		t.lock(h.x).Unlock()
	}
	h.y, h.both = t.other(h.x, d.ID), true
	t.lockBoth(h.x, h.y)
	if h.i = t.findLocked(h.x, d.ID); h.i < 0 {
		if h.i = t.findLocked(h.y, d.ID); h.i >= 0 {
			h.at = h.y
		}
	}
}

func (t *Table) release(h *held) {
	if h.both {
		t.unlockBoth(h.x, h.y)
	} else {
		t.lock(h.x).Unlock()
	}
}

// roomLocked returns a free place in the sets that are held, at home if there is one, or
// -1.
func (t *Table) roomLocked(h *held, now uint64) (at uint64, i int) {
	if i = t.drainedLocked(h.x, now); i >= 0 || !h.both || t.awayOf(h.x) == maxAway {
		return h.x, i
	}
	return h.y, t.drainedLocked(h.y, now)
}

// lowestLocked returns the place of the lowest bucket of both sets.
func (t *Table) lowestLocked(h *held, now uint64) (at uint64, i int) {
	least := uint64(math.MaxUint64)
	for _, x := range [2]uint64{h.x, h.y} {
		if x != h.x && t.awayOf(h.x) == maxAway {
			break
		}
		for j := range t.sets[x] {
			if level := t.levelLocked(x, j, now); level < least {
				at, i, least = x, j, level
			}
		}
	}
	return at, i
}

// levelLocked returns the level of the bucket at place i of set x.
func (t *Table) levelLocked(x uint64, i int, now uint64) uint64 {
	if t.logs != nil {
		return uint64(t.logs.at(x, i).live(now))
	}
	return t.shape.Level(t.sets[x][i].tat, now)
}

// evictLocked counts an eviction.
func (t *Table) evictLocked(at uint64, i int, now uint64) {
	if level := t.levelLocked(at, i, now); level > 0 {
		t.lost.evictions.Add(1)
		t.lost.forgiven.Add((level-1)/max(1, t.shape.unit) + 1)
	}
}

// findLocked returns the place of the bucket with that ID in set x, or -1.
func (t *Table) findLocked(x, id uint64) int {
	s := &t.sets[x]
	for i := range s {
		if s[i].tag^s[i].tat == id && s[i].tat != 0 {
			return i
		}
	}
	return -1
}

// drainedLocked returns the first place in set x that is free or whose bucket
// has drained, or -1.
func (t *Table) drainedLocked(x, now uint64) int {
	s, logs := &t.sets[x], t.logs
	for i := range s { // liveAt, inlined by hand
		if s[i].tat <= now|t.shape.low && (logs == nil || !logs.live(x, i, s[i].tat, now)) {
			return i
		}
	}
	return -1
}

func (t *Table) lock(x uint64) *sync.Mutex { return &t.locks[x%stripes].Mutex }

// lockOrder returns the order in which the locks of two sets are always taken.
func lockOrder(x, y uint64) (first, second uint64) {
	return min(x%stripes, y%stripes), max(x%stripes, y%stripes)
}

// lockBoth locks two sets, which may share a lock.
func (t *Table) lockBoth(x, y uint64) {
	a, b := lockOrder(x, y)
	t.locks[a].Lock()
	if a != b {
		t.locks[b].Lock()
	}
}

func (t *Table) unlockBoth(x, y uint64) {
	if x%stripes != y%stripes {
		t.lock(y).Unlock()
	}
	t.lock(x).Unlock()
}
