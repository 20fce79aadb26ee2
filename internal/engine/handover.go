package engine

import (
	"sync/atomic"
	"time"
	"weak"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/chain"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// What a rule goes on with moves in one step, while requests use the rule before:
//
//  1. From now on each request of the old rule that screen passes is charged to the new
//     rule's sketch too (tellNext).
//  2. The buckets are entered in the new table while nobody can charge the old one. What is
//     charged to that later is charged to both ([bucket.Table.TakeOver]).
//  3. The cells of the old sketch are added to the new one's.
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

// successor leads to the rules that go on with one: to the next that is in use, and from that
// to the one after it.
type successor struct {
	any  atomic.Bool // whether there has been one, for those who need not look
	node *chain.Node[Rule, bansOnWay]
}

// bansOnWay says what becomes of a ban on the way from one rule to a later one, over rules
// that are gone.
type bansOnWay struct {
	kept bool
	max  time.Duration // no ban lasts longer
}

func joinBans(first, second *bansOnWay) *bansOnWay {
	return &bansOnWay{first.kept && second.kept, min(first.max, second.max)}
}

func (r *Rule) beginChain() { r.next.node = chain.New(r, joinBans) }

// follow has r go on with old instead of who did so far.
func (r *Rule) follow(old *Rule) {
	r.next.node.Follow(old.next.node, &bansOnWay{r.bans != nil && old.keepsBans(r), r.config.Ban.Max})
	old.next.any.Store(true)
}

// weakRule is a rule for as long as somebody uses that.
type weakRule struct {
	rule atomic.Pointer[weak.Pointer[Rule]]
}

func (s *weakRule) store(r *Rule) {
	next := weak.Make(r)
	s.rule.Store(&next)
}

func (s *weakRule) load() *Rule {
	if p := s.rule.Load(); p != nil {
		return p.Value()
	}
	return nil
}

// handover is a rule that goes on with another.
type handover struct{ from, to *Rule }

// handOver has takeOver move the state of a rule, or tier, which may be nil.
func (l *Limiter) handOver(from, to *Rule) {
	if from != nil {
		l.handovers = append(l.handovers, handover{from, to})
	}
}

func (l *Limiter) takeOver() {
	for _, h := range l.handovers {
		h.to.takeOver(h.from)
	}
	l.handovers = nil
}

// takeOver moves the state of old, which may be in use. Nobody uses r yet.
func (r *Rule) takeOver(old *Rule) {
	sameTable, sameBans := r.buckets.Table.SameBuckets(&old.buckets.Table), r.bans == old.bans
	sameCells := r.sketch == nil || old.sketch != nil && r.cells.SameCells(&old.cells)
	r.follow(old)
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
		r.takeOverCells(old, highest)
	}
	r.takeOverAudit(old)
	if !sameBans && r.tier == 0 {
		r.takeOverBans(old)
	}
	if old.lines != nil {
		old.lines.goOn(r)
	}
}

// takeOverCells fills the sketch by that of old. Where that had none, all clients are suspects
// until the fullest bucket has drained: nobody can tell their cells.
func (r *Rule) takeOverCells(old *Rule, highest uint64) {
	now := r.time()
	ticks := r.buckets.SketchTicks(now)
	if old.sketch != nil {
		c := r.carry(old, now, now)
		r.cells.TakeOver(&old.cells, old.buckets.SketchTicks(now), ticks, c.LevelUp)
		return
	}
	if highest > 0 && !r.buckets.Plain {
		highest = r.threshold // until the period ends
	}
	r.cells.Fill(ticks, highest)
}

// carry is how states of old become those of r; both clocks show a time of the same moment.
func (r *Rule) carry(old *Rule, oldNow, now time.Duration) bucket.Carry {
	return bucket.Carry{
		From: old.buckets.Shape, To: r.buckets.Shape, FromNow: old.buckets.Ticks(oldNow), Now: r.buckets.Ticks(now),
		Whole: old.config.MaxRate != (limit.Rate{}) && r.config.MaxRate != (limit.Rate{}),
	}
}

// tellNext charges n units, which a request of r was screened for, to the sketches of those
// who go on with r.
func (r *Rule) tellNext(d sketch.Digest, n uint64, now time.Duration) {
	r.doubtNext(d)
	for was := r; ; {
		next, _ := was.next.node.Next()
		if next == nil {
			return
		}
		if next.sketch != nil && (was.sketch == nil || !next.cells.SameCells(&was.cells)) {
			units := (n*uint64(next.scale) + uint64(r.scale) - 1) / uint64(r.scale)
			next.sketch.Add(d, next.buckets.SketchTicks(now), next.buckets.Shape.Cost(units))
		}
		was = next
	}
}

// tellBan begins a ban of r's with those who go on with r, as if it had begun before them.
func (r *Rule) tellBan(b *ban.Ban, now time.Duration) {
	left := b.Left
	for was := r; ; {
		next, way := was.next.node.Next()
		if next == nil || !way.kept {
			return
		}
		if left = min(left, way.max); next.bans != was.bans {
			next.bans.Impose(&next.config.Ban, b.Digest, now, left, b.Times, []byte(b.Name))
		}
		was = next
	}
}
