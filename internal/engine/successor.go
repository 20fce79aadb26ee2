package engine

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/chain"
	"github.com/fastlimit/fastlimit/sketch"
)

// successor leads to a rule's successors: to the next that is in use, and from that to the one
// after it.
type successor struct {
	any  atomic.Bool // whether there has been one; else nobody needs to look
	has  atomic.Bool // whether this rule has the state of the one before, so that it may be asked
	node *chain.Node[Rule, bansKept]
}

// bansKept says what becomes of a ban on the way from a rule to a successor, past rules in between
// that are gone.
type bansKept struct {
	kept bool
	max  time.Duration // no ban lasts longer
}

func joinBans(first, second *bansKept) *bansKept {
	return &bansKept{first.kept && second.kept, min(first.max, second.max)}
}

func (r *Rule) beginChain() { r.next.node = chain.New(r, joinBans) }

// succeed makes r the successor of old, in place of an earlier one.
func (r *Rule) succeed(old *Rule) {
	r.next.node.Follow(old.next.node, &bansKept{r.bans != nil && old.keepsBans(r), r.config.Ban.Max})
	old.next.any.Store(true)
}

// newest returns the last successor of node's rule that is in use and may be asked, or nil.
func newest(node *chain.Node[Rule, bansKept]) (r *Rule) {
	for next, _ := node.Next(); next != nil && next.next.has.Load(); next, _ = next.next.node.Next() {
		r = next
	}
	return r
}

// chargeSuccessors charges n units, for which a request of r was screened, to its successors' sketches.
func (r *Rule) chargeSuccessors(d sketch.Digest, n uint64, now time.Duration) {
	r.doubtSuccessors(d)
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

// banAtSuccessors begins a ban of r's at its successors too, as if it had begun before them.
func (r *Rule) banAtSuccessors(b *ban.Ban, now time.Duration) {
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
