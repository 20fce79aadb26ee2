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

// insertTalker counts a hit that got past the filter, of a client that r.talkers has no slot for.
func (r *Rule) insertTalker(key Key, n uint64) {
	var name [sketch.TalkerNameBytes]byte
	r.talkers.Insert(key.digest(), n, r.appendName(name[:0], key))
}

// shed is the rest of a denial in take, for a client that is audited or was drawn. take returns what it returns,
// so that nothing has to be kept across a call (6 % of BenchmarkHotDenied).
//
//go:noinline
func (r *Rule) shed(d sketch.Digest, n, serial, tat, ticks, cost uint64, now time.Duration) limit.Decision {
	if r.talkers != nil && r.talkers.Drawn(serial, n) {
		r.talkers.Shed(d, n)
	}
	if uint32(d.ID) < r.sampled {
		r.denyAudited(d, ticks, cost)
	}
	return r.buckets.LeakyDecision(limit.StageTable, false, tat, now, cost)
}
