package selfaudit

import (
	"math/rand/v2"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// Visit is one step of one request of a client in the sample. Steps of one client exclude each other.
type Visit struct {
	table *Table
	rule  *Rule
	set   *set
	entry *entry // nil: no room for the client
	fresh bool
}

// Visit begins a step of a client judged by r. late is the latest time known. Leave ends it.
func (t *Table) Visit(r *Rule, d sketch.Digest, late, evictions uint64) Visit {
	v := Visit{table: t, rule: r, set: t.set(d)}
	v.set.mu.Lock()
	if v.entry = v.set.find(d); v.entry == nil {
		if v.entry = v.set.enter(d, late); v.entry == nil {
			return v
		}
	}
	if doubt := t.doubt.Load(); v.entry.rule == nil || v.entry.doubt != doubt && late > doubt {
		v.fresh, v.entry.high, v.entry.doubt = true, late+t.full, doubt
		t.restart(v.entry, late, evictions)
		if late <= doubt {
			v.entry.doubt = 0
		}
	}
	if e := v.entry; e.rule != r && t.rule.Load() == r || e.rule == nil {
		e.rule = r
		t.restart(e, late, evictions)
	}
	return v
}

// Fresh reports whether the client has no history here. Then call [Visit.Holds].
func (v *Visit) Fresh() bool { return v.fresh }

// Holds sets until when the client's bucket is busy. It cannot be charged during the visit.
func (v *Visit) Holds(tat uint64) { v.entry.high = tat }

// restart sets low to 0.
func (t *Table) restart(e *entry, late, evictions uint64) {
	e.low, e.known, e.evictions = 0, late+t.full, evictions
}

// Leave ends the step.
func (v *Visit) Leave() { v.set.mu.Unlock() }

// Times are the clock readings of a step: of its request, and the latest when the step was done.
type Times struct{ Now, Late uint64 }

// Screened reports the sketch's estimate including the request, 0 if it was not asked, and whether the
// request goes to the exact bucket.
func (v *Visit) Screened(at Times, estimate, cost uint64, suspect bool) {
	v.rule.Counts.requests.Add(1)
	e := v.entry
	if e == nil {
		return
	}
	if estimate == 0 || e.rule != v.rule || e.known > at.Now || e.last > at.Now {
		return
	}
	level := bucket.Level(e.low, at.Now) + cost
	v.rule.compare(estimate, level)
	if suspect && level < v.rule.Threshold {
		v.rule.Counts.falseSuspects.Add(1)
	}
}

// Admitted charges what was admitted without the exact bucket.
func (v *Visit) Admitted(at Times, cost, evictions uint64) { v.admitted(at, cost, 0, evictions) }

// Charged charges what the exact bucket was charged, which is busy until tat.
func (v *Visit) Charged(at Times, cost, tat, evictions uint64) {
	waited := uint64(0)
	if tat <= at.Late+cost {
		waited = at.Late - at.Now // the bucket was empty, and may have been removed at any time until Late
	}
	v.admitted(at, cost, waited, evictions)
}

func (v *Visit) admitted(at Times, cost, waited, evictions uint64) {
	e := v.entry
	if e == nil {
		return
	}
	e.high = min(bucket.Add(e.high, at.Late, cost), max(e.high, at.Late+v.table.full))
	if e.rule != v.rule || at.Now < e.last {
		return
	}
	e.last = at.Now
	if e.evictions != evictions || !v.judged() {
		v.table.restart(e, at.Late, evictions)
		return
	}
	e.low = bucket.Add(e.low-min(e.low, waited), at.Now, cost)
	v.rule.reached(bucket.Level(e.low, at.Late))
}

// Denied judges a denial by the exact bucket.
func (v *Visit) Denied(now, cost uint64) {
	if v.judged() && bucket.Level(v.entry.high, now)+cost <= v.rule.Most && !v.table.stopped.Load() {
		v.rule.Counts.falseDenials.Add(1)
	}
}

// judged reports whether the client is known.
func (v *Visit) judged() bool { return v.entry != nil && v.entry.doubt == v.table.doubt.Load() }

// Refunded reports a refund of cost.
func (v *Visit) Refunded(now, cost uint64) {
	if v.entry != nil {
		v.entry.low = bucket.Sub(v.entry.low, now, cost)
	}
}

// Reset reports that the bucket was emptied.
func (v *Visit) Reset(late, evictions uint64) {
	if v.entry != nil {
		v.table.restart(v.entry, late, evictions)
	}
}

// Denied checks a sample of the denials that were read from the bucket without a visit. It never waits.
func (t *Table) Denied(r *Rule, d sketch.Digest, now, cost uint64) {
	if rand.Uint32()&t.thin != 0 {
		return
	}
	s := t.set(d)
	if !s.mu.TryLock() {
		return // a charge may not be in high yet
	}
	defer s.mu.Unlock()
	r.Counts.requests.Add(1)
	v := Visit{table: t, rule: r, set: s, entry: s.find(d)}
	v.Denied(now, cost)
}
