package ban

import "time"

// Adopt takes over what another table knows, by a policy with the same or another Within: of
// another one only bans, and for whom they are remembered. What finds no room is lost.
func (t *Table) Adopt(old *Table, p *Policy, now time.Duration) {
	for x := range old.marks {
		mu := &old.locks[x&(len(old.locks)-1)]
		mu.Lock()
		for m := old.usedLocked(x); m != 0; m &= m - 1 {
			i := place(uint64(x), m) //nolint:gosec // positive
			if old.worthLocked(p, i, now) > 0 {
				t.copyIn(old, i, p, now)
			}
		}
		mu.Unlock()
	}
}

// copyIn enters the record at i of old, whose lock is held. Nobody else has t yet.
func (t *Table) copyIn(old *Table, i int, p *Policy, now time.Duration) {
	from, b := &old.front[i], &old.backs[i]
	d := from.digest()
	h := t.lock(d)
	defer h.unlock()
	k := t.roomLocked(p, &h, d, now, true)
	if k < 0 {
		return
	}
	t.enterLocked(k, d, uint64(now/t.slot)) //nolint:gosec // a time
	r := &t.front[k]
	w, n := r.open(), uint64(0)
	r.length, r.times, r.imposed = from.length, from.times, from.imposed
	t.endLocked(k, time.Duration(from.end.Load()), b.name[:b.length]) //nolint:gosec // a time
	if t.slot == old.slot {
		n = from.word.Load() & maxCount
		r.slot.Store(from.slot.Load())
		t.backs[k].past = b.past
	}
	r.close(w, n)
}

// usedLocked has a bit for each record of set x that is not free, for place.
func (t *Table) usedLocked(x int) uint64 { return highs &^ matches(t.marks[x].Load(), 0) }

// Sweep frees records that say nothing any more at now, nor to requests that were read up to
// Within before, in part of the sets: the part'th of parts. Without it they make room when
// others need it.
func (t *Table) Sweep(p *Policy, now time.Duration, part, parts int) {
	now -= min(now, p.Within)
	for x := len(t.marks) * part / parts; x < len(t.marks)*(part+1)/parts; x++ {
		if t.marks[x].Load() == 0 {
			continue
		}
		mu := &t.locks[x&(len(t.locks)-1)]
		mu.Lock()
		for m := t.usedLocked(x); m != 0; m &= m - 1 {
			if i := place(uint64(x), m); t.worthLocked(p, i, now) == 0 { //nolint:gosec // positive
				t.freeLocked(i)
			}
		}
		mu.Unlock()
	}
}

// Stats returns what the table did, and how many bans run at now.
func (t *Table) Stats(now time.Duration) Stats {
	s := Stats{Begun: t.begun.Load(), Full: t.full.Load(), Passed: t.passed.Load()}
	if t.Quiet(now) {
		return s
	}
	for i := range t.front {
		if time.Duration(t.front[i].end.Load()) > now { //nolint:gosec // a time
			s.Running++
		}
	}
	return s
}
