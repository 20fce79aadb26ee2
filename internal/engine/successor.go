package engine

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/chain"
	"github.com/fastlimit/fastlimit/sketch"
)

// successor links a rule to its successors: to the next one in use, which links to the one after it.
type successor struct {
	any  atomic.Bool // there has been one; else nobody needs to look
	has  atomic.Bool // this rule has its predecessor's state, so it may be asked
	node *chain.Node[Rule, bansKept]
}

// bansKept is what happens to a ban on its way from a rule to a successor, past rules in between that are
// gone.
type bansKept struct {
	kept bool
	max  time.Duration // no ban lasts longer
}

func joinBans(first, second *bansKept) *bansKept {
	return &bansKept{first.kept && second.kept, min(first.max, second.max)}
}

func (r *Rule) beginChain() { r.next.node = chain.New(r, joinBans) }

// succeed makes r the successor of old, replacing an earlier one.
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

// chargeSuccessors charges n units of a request that r screened to the sketches of its successors.
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

// banAtSuccessors begins r's ban at its successors too, as if it had begun before them.
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
