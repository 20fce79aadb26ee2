package fastlimit

import (
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// forgiven is ε, the share by which a client may exceed its rate in a
	// cluster since each node forgives it a hit in each window of the first-
	// seen filter: N hits in W, which W >= N·T/ε keeps to ε·r. Less means a
	// longer window, more memory for the filter, and rules that do without.
	forgiven = 0.02

	// minEpoch keeps slow what is done once an epoch.
	minEpoch = 10 * time.Second

	// heldLag is the lag L up to which the sketch holds all that a cluster may
	// have admitted. After a longer one, a partition, it forgets a past
	// offender sooner, and N·r·L of the bound counts once for each partition.
	heldLag = 10 * time.Second

	// maxLevel keeps sums of levels in ticks and a clock within 64 bits.
	maxLevel = 1 << 61
)

// ClusterBound is the most that all nodes of a cluster of [Config.Nodes] admit
// of one client: burst + rate·s units in any s seconds, where lag is the time
// from a hit until every peer has been charged with it. Not in it are the
// decisions in flight, and what tables of top talkers did not tell: of f
// units at each other node and epoch, (N-1)·f·(s/E + 2). Each node that died
// with something untold adds B + r·lag. The proof is in
// docs/decisions/0005-nodes.md.
//
// Of a rule that counts in windows or keeps a log s seconds meet s/P + 2 periods at
// most, and each holds [RulePlan.ClusterWindow].
//
// It assumes one configuration of the rule. While a change of its rate or burst
// rolls through, nodes of the old and of the new one do not exchange counts
// ([Rule.Identity]), and what they admit adds up: the sum of both bounds.
//
// Without a shared exact tier nodes cannot judge together: N times the bound
// of one.
func (rp *RulePlan) ClusterBound(lag time.Duration) (rate float64, burst uint64) {
	b, r, n := float64(rp.Config.Burst), rp.Config.Rate.PerSecond(), float64(rp.nodes)
	if rp.periodic() {
		most := float64(rp.ClusterWindow())
		return most / rp.shape.Period().Seconds(), uint64(2 * most)
	}
	if rp.nodes == 1 || rp.slack == 0 {
		return n * r, uint64(rp.nodes) * rp.MaxBurst()
	}
	most := b + r*(rp.slack+bucket.ClockRounding).Seconds()
	if rp.hasSketch() {
		most += n * (*rp.Config.EscalateAt*b + r*max(lag, 0).Seconds())
	}
	rate = r
	if rp.Filter {
		most += n
		rate *= 1 + forgiven
	}
	return rate, uint64(min(most, 1<<63)) + 1 // rounded up
}

// ClusterWindow is the most that all nodes admit of one client in one window of a
// rule that counts in windows, and in any period of one that keeps a log: (1+N·θ)·n + N with a shared exact tier, of which each
// node adds what passes its own filter and sketch unchecked, whatever it was told or
// not. It is 0 for other rules.
func (rp *RulePlan) ClusterWindow() uint64 {
	switch {
	case !rp.periodic():
		return 0
	case !rp.shared:
		return uint64(rp.nodes) * rp.MaxBurst()
	}
	unchecked := rp.MaxBurst() - rp.Config.Burst
	return rp.Config.Burst + uint64(rp.nodes)*unchecked
}

// clusterLevel is the level in ticks that ClusterBound allows a client after a
// lag of up to heldLag, with room for so many decisions in flight at each node.
func (rp *RulePlan) clusterLevel(inFlight uint64) uint64 {
	_, units := rp.ClusterBound(heldLag)
	hi, level := bits.Mul64(units+uint64(rp.nodes)*inFlight, rp.shape.Unit())
	if hi != 0 || level > maxLevel {
		return maxLevel
	}
	return level
}

// window is what the first-seen filter must remember a client for.
func (rp *RulePlan) window() time.Duration {
	w := rp.drainTime()
	if rp.nodes > 1 && !rp.periodic() { // a window counts what N nodes forgive once
		w = max(w, rp.leakTime(float64(rp.nodes)/forgiven))
	}
	return w
}

// epoch is that of the rule's top talkers.
func (rp *RulePlan) epoch() time.Duration { return max(rp.drainTime(), minEpoch) }

// Epoch is E, after which the weights of [Rule.TopTalkers] are to begin anew: at
// least the time in which the fullest bucket drains, and 10 s. It is for those
// who end epochs; see there.
func (r *Rule) Epoch() time.Duration { return r.epoch }

// ChargePeer charges units, or [RuleConfig].Thousandths of one, that another node counted to the sketch, as of now:
// to the client at pos, a [sketch.Slot]'s. That can make a suspect and never
// denies. Without a sketch there are no suspects and nothing happens. It is for
// package sync/gossip.
func (r *Rule) ChargePeer(pos, units uint64) {
	r.checkMade()
	if r.sketch == nil {
		return
	}
	hi, cost := bits.Mul64(units, r.shape.Part())
	if hi != 0 {
		cost = maxLevel
	}
	r.sketch.Charge(sketch.Digest{Pos: pos}, r.sketchTicks(r.clock.Late(r.clock.Now())), cost)
}

// talkerSlots rounds up to whole sets.
func talkerSlots(n int) int { return (n + 3) / 4 * 4 }
