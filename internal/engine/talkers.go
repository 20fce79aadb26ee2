package engine

import (
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// TopTalkers is fastlimit.Rule.TopTalkers.
func (r *Rule) TopTalkers() sketch.RuleTalkers {
	return sketch.RuleTalkers{Table: r.talkers, Rule: r.Name(), Unit: uint64(r.scale), Epoch: r.epoch, Text: r.nameText}
}

// recordTalker counts a hit that got past the filter. slot is the client's, or -1 if it has none. r.talkers
// must not be nil.
func (r *Rule) recordTalker(key Key, slot int, n uint64) {
	if slot >= 0 {
		r.talkers.AddTo(slot, n)
		return
	}
	var name [sketch.TalkerNameBytes]byte
	r.talkers.Insert(key.digest(), n, r.appendName(name[:0], key))
}

// recordShed counts a random sample of denials by the table for the top talkers. Not inlined: its computation
// would take registers from every denial (a sixth of BenchmarkHotDenied).
//
//go:noinline
func (r *Rule) recordShed(d sketch.Digest, n, serial uint64) {
	if r.talkers.Drawn(serial, n) {
		r.talkers.Shed(d, n)
	}
}

// shed is the rest of a denial in take, for a client that is audited or a rule that has talkers.
//
//go:noinline
func (r *Rule) shed(d sketch.Digest, n, serial, tat, ticks, cost uint64, now time.Duration) limit.Decision {
	if r.talkers != nil {
		r.recordShed(d, n, serial)
	}
	if uint32(d.ID) < r.sampled {
		r.denyAudited(d, ticks, cost)
	}
	if retry, empty, ok := r.buckets.Shape.Over(tat, ticks, cost); ok {
		return limit.Decision{Outcome: limit.Outcome{Stage: limit.StageTable}, RetryAfter: retry, TimeToEmpty: empty}
	}
	return r.buckets.LeakyDecision(limit.StageTable, false, tat, now, cost)
}
