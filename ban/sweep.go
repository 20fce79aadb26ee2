package ban

import "time"

// Adopt takes over the state of another table, under a policy that may differ. The time now
// was oldNow by the other's clock. Bans last for Max at most. Denials count as of when
// their slot began, in the slots of t: none longer than Within. If both tables know a
// client, the ban that ends later stays, and so do the denials of the table that counts
// more of them: both may have counted the same ones, so they do not add up. Records that
// find no room are lost. Both tables may be in use.
func (t *Table) Adopt(old *Table, p *Policy, oldNow, now time.Duration) {
	for x := range old.marks {
		mu := &old.locks[x&(len(old.locks)-1)]
		mu.Lock()
		for m := old.usedLocked(x); m != 0; m &= m - 1 {
			i := place(uint64(x), m)
			if old.worthLocked(p, i, oldNow) > 0 {
				t.copyIn(old, i, p, oldNow, now)
			}
		}
		mu.Unlock()
	}
}

// AddStats adds the counts of another table so far.
func (t *Table) AddStats(old *Table) {
	t.begun.Add(old.begun.Load())
	t.full.Add(old.full.Load())
	t.passed.Add(old.passed.Load())
}

// copyIn enters the record at i of old, whose lock is held.
func (t *Table) copyIn(old *Table, i int, p *Policy, oldNow, now time.Duration) {
	from, b := &old.front[i], &old.backs[i]
	d := from.digest()
	here := func(end uint64) time.Duration { // 0: there was none
		if end == 0 {
			return 0
		}
		return max(1, min(time.Duration(end)-oldNow, p.Max)+now)
	}
	end, own := here(from.end.Load()), here(from.own)
	h := t.lock(d)
	defer h.unlock()
	k := t.findLocked(&h, d)
	if k < 0 {
		sets := h
		if end > now {
			sets = t.forBanLocked(h, now)
		}
		if k = t.roomLocked(p, &sets, d, now, true); k < 0 {
			return
		}
		t.enterLocked(k, d, uint64(now/t.slot))
	}
	r := &t.front[k]
	w := r.open()
	slot := max(uint64(now/t.slot), r.slot.Load())
	past, n := t.recountLocked(slot, t, k, now, now, own)
	if theirs, more := t.recountLocked(slot, old, i, oldNow, now, time.Duration(r.own)); more > n {
		past, n = theirs, more
	}
	t.backs[k].past = past
	r.slot.Store(slot)
	if own > time.Duration(r.own) {
		r.own, r.length = uint64(own), min(from.length, uint64(p.Max))
	}
	if end > time.Duration(r.end.Load()) {
		r.times = from.times
		t.endLocked(k, end, b.name[:b.length])
	}
	r.close(w, n)
}

// recountLocked returns the denials of the record at i of old in the slots of t, where slot
// is the current one: those of the previous slots, and their number including the current
// slot. Denials in slots that began before since do not count: then a ban by the other
// record was in force.
func (t *Table) recountLocked(slot uint64, old *Table, i int, oldNow, now, since time.Duration) (past [slots - 1]uint16, n uint64) {
	from, theirs := &old.front[i], &old.backs[i].past
	current, was := from.word.Load()&maxCount, from.slot.Load()
	for _, c := range theirs {
		current -= min(current, uint64(c))
	}
	add := func(ago, count uint64) {
		began := time.Duration(was-min(was, ago))*old.slot - oldNow + now
		if count == 0 || began < max(since, 0) {
			return
		}
		// One from requests that were read later counts as of now.
		switch ago := slot - min(slot, uint64(began/t.slot)); {
		case ago >= slots:
			return
		case ago > 0:
			past[ago-1] += uint16(min(count, uint64(maxCount-past[ago-1])))
		}
		n = min(n+count, maxCount)
	}
	add(0, current)
	for j, c := range theirs {
		add(uint64(j)+1, uint64(c))
	}
	return past, n
}

// usedLocked returns a bit for each record of set x that is not free, for place.
func (t *Table) usedLocked(x int) uint64 { return highs &^ matches(t.marks[x].Load(), 0) }

// Sweep frees records that no longer matter at now, nor to requests that were read up to
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
			if i := place(uint64(x), m); t.worthLocked(p, i, now) == 0 {
				t.freeLocked(i)
			}
		}
		mu.Unlock()
	}
}

// Stats returns what the table did, and how many bans are in force at now.
func (t *Table) Stats(now time.Duration) Stats {
	s := Stats{Begun: t.begun.Load(), Full: t.full.Load(), Passed: t.passed.Load()}
	if t.Quiet(now) {
		return s
	}
	for i := range t.front {
		if time.Duration(t.front[i].end.Load()) > now {
			s.Running++
		}
	}
	return s
}
