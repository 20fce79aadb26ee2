package ban

import (
	"iter"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Ban is a ban in force.
type Ban struct {
	Digest sketch.Digest
	Name   string        // of the client, as given to Begin or Impose
	Left   time.Duration // until the ban ends
	Own    time.Duration // until the last one by Begin ends, at least 0; less than Left if this one is by Impose
	Times  int           // number of the client's bans that are remembered, including this one
}

// Stats counts what a table did.
type Stats struct {
	Begun   uint64 // bans
	Full    uint64 // bans that found no room
	Passed  uint64 // denials that were not counted, as no other client had to make room
	Running int    // bans in force
}

// Begin begins the ban of d at now if one is due and none is in force. It returns the ban
// that is then in force, if any, and whether it has begun now. It keeps the first NameBytes
// of name.
func (t *Table) Begin(p *Policy, d sketch.Digest, now time.Duration, name []byte) (b Ban, running, begun bool) {
	h := t.lock(d)
	defer h.unlock()
	i := t.findLocked(&h, d)
	if i < 0 {
		return Ban{}, false, false
	}
	r := &t.front[i]
	if time.Duration(r.end.Load()) > now {
		return t.banLocked(i, now), true, false
	}
	w := r.open()
	length := r.remembered(p, now)
	if length == 0 {
		r.length, r.times = 0, 0
	}
	n := w & maxCount
	if n < uint64(p.needs(length > 0)) {
		r.close(w, n)
		return Ban{}, false, false
	}
	t.backs[i].past = [slots - 1]uint16{}
	if t.bannedLocked(i/ways, now) >= most {
		t.full.Add(1)
		r.close(w, 0)
		return Ban{}, false, false
	}
	length = p.next(length)
	r.length, r.own = uint64(length), uint64(now+length)
	r.times++
	t.endLocked(i, now+length, name)
	r.close(w, 0)
	t.begun.Add(1)
	return t.banLocked(i, now), true, true
}

// endLocked sets the end of the ban of the record at i, which is open.
func (t *Table) endLocked(i int, end time.Duration, name []byte) {
	t.front[i].end.Store(uint64(end))
	b := &t.backs[i]
	b.length = uint8(copy(b.name[:], name)) // at most NameBytes
	for l := t.latest.Load(); l < int64(end) && !t.latest.CompareAndSwap(l, int64(end)); l = t.latest.Load() {
	}
}

// bannedLocked returns how many clients of set x are banned.
func (t *Table) bannedLocked(x int, now time.Duration) (n int) {
	for i := x * ways; i < (x+1)*ways; i++ {
		if time.Duration(t.front[i].end.Load()) > now {
			n++
		}
	}
	return n
}

func (t *Table) banLocked(i int, now time.Duration) Ban {
	r, b := &t.front[i], &t.backs[i]
	return Ban{
		Digest: r.digest(), Name: string(b.name[:b.length]),
		Left: time.Duration(r.end.Load()) - now, Own: max(0, time.Duration(r.own)-now), Times: int(r.times),
	}
}

// Impose bans d for left from now on, or for Max if that is shorter, because another source
// has reported a ban. A ban that ends later stays as it is. Impose returns for how long d
// is banned now, 0 if there was no room. It does not count as a ban that makes later ones
// of d longer, and changes nothing that counts towards those: otherwise a source of imposed
// bans could keep d from any ban by Begin.
func (t *Table) Impose(p *Policy, d sketch.Digest, now, left time.Duration, times int, name []byte) (runs time.Duration) {
	h := t.lock(d)
	defer h.unlock()
	i := t.findLocked(&h, d)
	if i < 0 {
		sets := t.forBanLocked(h, now)
		if i = t.roomLocked(p, &sets, d, now, true); i >= 0 {
			t.enterLocked(i, d, uint64(now/t.slot))
		}
	}
	if i < 0 || time.Duration(t.front[i].end.Load()) <= now && t.bannedLocked(i/ways, now) >= most {
		t.full.Add(1)
		return 0
	}
	r := &t.front[i]
	if end := now + min(left, p.Max); uint64(end) > r.end.Load() {
		w := r.open()
		if r.remembered(p, now) == 0 {
			r.length, r.times = 0, 0
		}
		r.times = max(r.times, uint32(min(max(1, times), 1<<31)))
		t.endLocked(i, end, name)
		r.close(w, w&maxCount)
	}
	return time.Duration(r.end.Load()) - now
}

// Lift ends the ban of d, if there is one, and forgets d. It returns the ban that was in
// force, and whether there was one.
func (t *Table) Lift(d sketch.Digest, now time.Duration) (was Ban, banned bool) {
	h := t.lock(d)
	defer h.unlock()
	i := t.findLocked(&h, d)
	if i < 0 {
		return Ban{}, false
	}
	if banned = time.Duration(t.front[i].end.Load()) > now; banned {
		was = t.banLocked(i, now)
	}
	t.freeLocked(i)
	return was, banned
}

// LiftImposed ends the ban of d if it is by Impose, for the source that has reported it. A
// ban by Begin that would not have ended yet continues, and everything that is known about
// d stays.
func (t *Table) LiftImposed(d sketch.Digest, now time.Duration) (was Ban, banned bool) {
	h := t.lock(d)
	defer h.unlock()
	i := t.findLocked(&h, d)
	if i < 0 {
		return Ban{}, false
	}
	r := &t.front[i]
	if !r.imposed() || time.Duration(r.end.Load()) <= now {
		return Ban{}, false
	}
	was = t.banLocked(i, now)
	w := r.open()
	r.end.Store(r.own)
	r.close(w, w&maxCount)
	return was, true
}

// freeLocked frees the record at i.
func (t *Table) freeLocked(i int) {
	t.markLocked(i, 0)
	r := &t.front[i]
	w := r.open()
	r.end.Store(0)
	r.own, r.length, r.times = 0, 0, 0
	r.close(w, 0)
}

// All returns the bans in force at now, in no order.
func (t *Table) All(now time.Duration) iter.Seq[Ban] {
	return func(yield func(Ban) bool) {
		if t.Quiet(now) {
			return
		}
		var found [ways]Ban
		for x := range t.marks {
			all := found[:0]
			mu := &t.locks[x&(len(t.locks)-1)]
			mu.Lock()
			for i := x * ways; i < (x+1)*ways; i++ {
				if time.Duration(t.front[i].end.Load()) > now {
					all = append(all, t.banLocked(i, now))
				}
			}
			mu.Unlock()
			for _, b := range all {
				if !yield(b) {
					return
				}
			}
		}
	}
}
