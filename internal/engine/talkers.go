package engine

import (
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
