package fastlimit

import (
	"errors"
	"time"
)

// Merge raises the state of each rule that from has too, with the same name, KeyKind and
// prefixes, to the maximum of both: buckets, sketch cells, bans and what counts towards them.
// It is for a process that was started beside another one, and gets that one's state when it has
// ended. from is a limiter of the same Secret, or the error says so; it needs no clock, sizes or
// limits of this one, as the time that each of them has is taken to be the same moment, and
// units stay as by [Limiter.With]. Only windows begin by the wall time of each. What from has
// counted in one that has not begun by l's, since its clock was ahead, is forgiven. from must not
// decide anything any more.
//
// By maximum, since both may have begun from the same state: what a client was admitted by one
// of them after that is not added to what it was by the other. So nobody is denied who was not
// denied by either ("P1"), and who used both for a while has had up to twice the limit.
//
// The first-seen filter knows whom either has seen, or, if they differ in size, everybody for a
// window. Counters and top talkers are not merged. l may be in use.
func (l *Limiter) Merge(from *Limiter) error {
	l.checkMade()
	from.checkMade()
	if l.secret != from.secret {
		return errors.New("fastlimit: a limiter of another Secret cannot be merged, as it has other names for the same clients")
	}
	if l == from {
		return nil
	}
	for i := range l.plan.Rules {
		rp := &l.plan.Rules[i]
		if was := from.keeps(rp, &Config{Secret: l.secret}); was != nil {
			l.rules[i].merge(was)
		}
	}
	if l.filter != nil {
		l.filter.Merge(from.filter)
	}
	return nil
}

// merge raises the buckets, cells and bans of r to those of from.
func (r *Rule) merge(from *Rule) {
	if r.buckets.Shape.Takes(&from.buckets.Shape) {
		r.mergeBuckets(from)
		r.mergeCells(from)
		for i, t := range r.tiers {
			if was := from.tierLike(&r.plan().Tiers[i]); was != nil {
				t.mergeBuckets(was)
			}
		}
	}
	if r.bans != nil && from.keepsBans(r) {
		r.bans.Adopt(from.bans, &r.config.Ban, from.time(), r.time())
	}
}

// mergeBuckets dates what from knows so that levels come out lower, if anything: our time is
// read first, and what is left of a µs is over.
func (r *Rule) mergeBuckets(from *Rule) {
	now := r.time()
	r.buckets.Table.Merge(&from.buckets.Table, r.carry(from, from.time()+time.Microsecond, now))
	if r.shared != nil {
		r.shared.Distrust(r.time()) // the store may have forgotten
	}
}

// mergeCells dates it the other way round.
func (r *Rule) mergeCells(from *Rule) {
	if r.sketch == nil {
		return
	}
	was := from.time()
	now := r.time() + time.Microsecond
	c := r.carry(from, was, now)
	switch {
	case r.buckets.Logged: // its periods begin at other times
		r.cells.Fill(r.buckets.SketchTicks(now), r.threshold)
	case from.sketch == nil:
		r.cells.Fill(r.buckets.SketchTicks(now), max(r.threshold, r.buckets.Table.Highest(c.Now)))
	default:
		r.cells.Merge(&from.cells, from.buckets.SketchTicks(was), r.buckets.SketchTicks(now), c.LevelUp)
	}
}
