package engine

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/limit"
)

// State passes from one rule to another in two ways. After With the two are predecessor and
// successor: they have one clock, requests use both for a while, and the successor has all that
// the predecessor knew (transferFrom). In Merge they have clocks of their own, both knew something
// before, and each level becomes the higher of the two (mergeFrom). State that was loaded from a file
// passes in the same ways.
//
// A transfer is one step, while requests use the predecessor:
//
//  1. From now on each request of the predecessor that screen passes is charged to the
//     successor's sketch too (chargeSuccessors).
//  2. The buckets are entered in the new table while nobody can charge the old one. Later charges
//     to the old one go to both ([bucket.Table.TakeOver]).
//  3. The cells of the old sketch are added to the new one's.
//  4. From now on requests that wait for the predecessor ask the successor (newest). Before, its
//     table is written without its locks.
//
// Invariants, for the moment of the change and ever after:
//
//	X'  each unit that a bucket of the old table was charged with, before 2 or since, counts
//	    once in the bucket of the new one, less what has leaked and what exceeded a full one
//	S'  each unit that a sketch cell was charged with counts at least once in those of the
//	    new one that have its client: before 1 it is in the cell that 3 reads, else both
//	    have it, and 3 adds
//
// So P1 holds by X' alone, whatever the sketch says, and P2 from the change on as if the
// client had come with what its new bucket held then; see
// docs/decisions/0033-another-limit.md.

// transfer is a rule, or tier, that takes over the state of another.
type transfer struct{ from, to *Rule }

// addTransfer plans a transfer. Without a predecessor there is none.
func (l *Limiter) addTransfer(from, to *Rule) {
	if from != nil {
		l.transfers = append(l.transfers, transfer{from, to})
	}
}

func (l *Limiter) transferAll() {
	for _, t := range l.transfers {
		t.to.transferFrom(t.from)
	}
	l.transfers = nil
}

// transferFrom moves the state of old, which may be in use. Nobody uses r yet.
func (r *Rule) transferFrom(old *Rule) {
	sameTable, sameBans := r.buckets.Table.SameBuckets(&old.buckets.Table), r.bans == old.bans
	sameCells := r.sketch == nil || old.sketch != nil && r.cells.SameCells(&old.cells)
	r.succeed(old)
	takes, highest := r.buckets.Shape.Takes(&old.buckets.Shape), uint64(0)
	switch {
	case sameTable:
		r.buckets.Table.Unfollowed()
		highest = r.buckets.Table.Highest(r.buckets.Ticks(r.time()))
	case takes:
		highest = r.buckets.Table.TakeOver(&old.buckets.Table, func() bucket.Carry {
			now := r.time()
			return r.carry(old, now, now)
		})
	}
	if takes && !sameCells {
		now := r.time()
		if c := r.carry(old, now, now); old.sketch != nil {
			r.cells.TakeOver(&old.cells, old.buckets.SketchTicks(now), r.buckets.SketchTicks(now), c.LevelUp)
		} else {
			r.suspectAll(highest, now)
		}
	}
	r.transferAudit(old)
	if !sameBans && r.tier == 0 && r.transferBans(old) {
		r.bans.AddStats(old.bans)
	}
	r.next.has.Store(true)
	if old.queues != nil {
		old.queues.WakeFirst() // to ask r
	}
}

// mergeFrom raises the buckets, cells and bans of r to those of from.
func (r *Rule) mergeFrom(from *Rule) {
	if r.buckets.Shape.Takes(&from.buckets.Shape) {
		r.mergeBuckets(from)
		r.mergeCells(from)
		for i, t := range r.tiers {
			if was := from.tierLike(&r.plan().Tiers[i]); was != nil {
				t.mergeBuckets(was)
			}
		}
	}
	r.transferBans(from)
}

// mergeBuckets rounds levels down: it reads the clock of r first, and adds 1 µs to the other.
func (r *Rule) mergeBuckets(from *Rule) {
	r.doubtAudit()
	defer r.doubtAudit()
	now := r.time()
	r.buckets.Table.Merge(&from.buckets.Table, r.carry(from, from.time()+time.Microsecond, now))
	if r.shared != nil {
		r.shared.Distrust(r.time()) // the store may have forgotten
	}
}

// mergeCells rounds levels up.
func (r *Rule) mergeCells(from *Rule) {
	if r.sketch == nil {
		return
	}
	was := from.time()
	now := r.time() + time.Microsecond
	c := r.carry(from, was, now)
	switch {
	case r.buckets.Logged: // its periods begin at other times
		r.suspectAll(r.threshold, now)
	case from.sketch == nil:
		r.suspectAll(max(r.threshold, r.buckets.Table.Highest(c.Now)), now)
	default:
		r.cells.Merge(&from.cells, from.buckets.SketchTicks(was), r.buckets.SketchTicks(now), c.LevelUp)
	}
}

// suspectAll makes all clients suspects until the fullest bucket, at level highest, has drained, because it
// is not known which cells are theirs.
func (r *Rule) suspectAll(highest uint64, now time.Duration) {
	if highest > 0 && !r.buckets.Plain {
		highest = r.threshold // until the period ends
	}
	r.cells.Fill(r.buckets.SketchTicks(now), highest)
}

// carry describes how states of old become those of r. Both times are of the same moment.
func (r *Rule) carry(old *Rule, oldNow, now time.Duration) bucket.Carry {
	return bucket.Carry{
		From: old.buckets.Shape, To: r.buckets.Shape, FromNow: old.buckets.Ticks(oldNow), Now: r.buckets.Ticks(now),
		Whole: old.config.MaxRate != (limit.Rate{}) && r.config.MaxRate != (limit.Rate{}),
	}
}

// transferBans adds the bans of another rule to r's table if they are kept, and reports whether they are.
func (r *Rule) transferBans(from *Rule) bool {
	if r.bans == nil || !from.keepsBans(r) {
		return false
	}
	r.bans.Adopt(from.bans, &r.config.Ban, from.time(), r.time())
	return true
}
