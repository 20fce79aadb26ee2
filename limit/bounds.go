package limit

import (
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

const (
	// forgiven is ε, the share by which a client may exceed its rate in a cluster. Each
	// node forgives a client one hit in each window of the first-seen filter: N hits in W,
	// which W >= N·T/ε keeps to ε·r. A lower value means a longer window, more memory for
	// the filter, and more rules that do without it.
	forgiven = 0.02

	// heldLag is the lag L up to which the sketch holds all that a cluster may have
	// admitted. After a longer lag, in a partition, it forgets a past offender sooner, and
	// N·r·L of the bound counts once for each partition.
	heldLag = 10 * time.Second

	// maxLevel keeps sums of levels in ticks and a clock within 64 bits.
	maxLevel = 1 << 61
)

// MaxBurst returns the most units that a client is admitted in one window, or in any period
// of a log: (1+θ)·N + 1. With fixed windows it may be twice that at once, where one window
// ends and the next begins. For a bucket it returns the most units that a client is
// admitted at once on one node, not counting decisions in flight: (1+θ)·B + 1 + r·2 µs, and
// r·J with a shared exact tier (P2). The 1 is the request that the first-seen filter
// admits, the 2 µs are the clock's rounding.
func (rp *RulePlan) MaxBurst() uint64 {
	c := &rp.Config
	most := (1 + *c.EscalateAt) * float64(c.Burst)
	if !rp.periodic() {
		most += c.Rate.PerSecond() * (rp.slack + bucket.ClockRounding).Seconds()
	}
	if rp.Filter {
		most++
	}
	return uint64(most)
}

// ClusterBound returns the most that all nodes of a cluster of [Config.Nodes] admit of one
// client: burst + rate·s units in any s seconds, where lag is the time from a hit until
// every peer has been charged with it. It does not include decisions in flight, nor what
// tables of top talkers did not send: for f units at each other node and epoch,
// (N-1)·f·(s/E + 2). Each node that died with unsent counts adds B + r·lag. The proof is in
// docs/decisions/0005-nodes.md.
//
// For a rule that counts in windows or keeps a log, s seconds overlap s/P + 2 periods at
// most, and each holds [RulePlan.ClusterWindow].
//
// The bound assumes one configuration of the rule. While a change of its rate or burst
// rolls through, nodes with the old and with the new one do not exchange counts, and what
// they admit adds up to the sum of both bounds.
//
// Without a shared exact tier nodes cannot judge together, so the bound is N times that of
// one.
func (rp *RulePlan) ClusterBound(lag time.Duration) (rate float64, burst uint64) {
	b, r, n := float64(rp.Config.Burst), rp.Config.Rate.PerSecond(), float64(rp.nodes)
	if rp.periodic() {
		most := float64(rp.ClusterWindow())
		return most / rp.Shape.Period().Seconds(), uint64(2 * most)
	}
	if rp.nodes == 1 || rp.slack == 0 {
		return n * r, uint64(rp.nodes) * rp.MaxBurst()
	}
	most := b + r*(rp.slack+bucket.ClockRounding).Seconds()
	if rp.HasSketch() {
		most += n * (*rp.Config.EscalateAt*b + r*max(lag, 0).Seconds())
	}
	rate = r
	if rp.Filter {
		most += n
		rate *= 1 + forgiven
	}
	return rate, uint64(min(most, 1<<63)) + 1 // rounded up
}

// ClusterWindow returns the most that all nodes admit of one client in one window of a rule
// that counts in windows, and in any period of one that keeps a log: (1+N·θ)·n + N with a
// shared exact tier. Each node contributes what passes its own filter and sketch unchecked,
// whatever other nodes have sent it. It is 0 for other rules.
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

// Threshold returns the level in the sketch, in ticks, from which on a client is a suspect:
// θ·B·T, rounded down. It is 0 without a sketch.
func (rp *RulePlan) Threshold() uint64 {
	if rp.sliding() { // two periods of the sketch can count at once
		return uint64(*rp.Config.EscalateAt * float64(rp.Shape.Burst()) / 2)
	}
	return uint64(*rp.Config.EscalateAt * float64(rp.Shape.Burst()*rp.Shape.Unit()))
}

// SketchLimit returns the level in ticks at which cells stop rising. It is above every
// level that P2 allows a client, with room for 64 decisions in flight at each node. A
// client beyond that is suspected for as long as it takes to leak from here.
func (rp *RulePlan) SketchLimit() uint64 {
	const inFlight = 64
	if rp.periodic() {
		return max(1, rp.Threshold()) // above it a client is suspected until the period ends
	}
	limit := rp.Threshold() + rp.Shape.Most() + (1+inFlight)*rp.Shape.Unit()
	if rp.nodes > 1 {
		limit = max(limit, rp.clusterLevel(inFlight))
	}
	return limit
}

// clusterLevel returns the level in ticks that ClusterBound allows a client after a lag of
// up to heldLag, with room for inFlight decisions at each node.
func (rp *RulePlan) clusterLevel(inFlight uint64) uint64 {
	_, units := rp.ClusterBound(heldLag)
	hi, level := bits.Mul64(units+uint64(rp.nodes)*inFlight, rp.Shape.Unit())
	if hi != 0 || level > maxLevel {
		return maxLevel
	}
	return level
}

// window returns how long the first-seen filter must remember a client.
func (rp *RulePlan) window() time.Duration {
	w := rp.DrainTime()
	if rp.nodes > 1 && !rp.periodic() { // a window counts what N nodes forgive once
		w = max(w, rp.leakTime(float64(rp.nodes)/forgiven))
	}
	return w
}

// DrainTime returns ((1+θ)·B + 2)·T plus the clock's rounding, plus J with a shared exact
// tier. A client that was silent for so long has level 0, however much P2 allowed it
// before. One unit less would break P2: the client would be admitted uncounted while its
// level has not drained.
//
// A fixed window is forgotten when it is over, a sliding one when the next one is. That
// takes up to 8/7 of a period if the wall clock was set back (see package clock). A log is
// forgotten after a period.
func (rp *RulePlan) DrainTime() time.Duration {
	//exhaustive:enforce
	switch rp.Shape.Algorithm() {
	case LeakyBucket, TokenBucket: // below
	case FixedWindow:
		return rp.Shape.Period() * 5 / 4
	case SlidingWindow:
		return rp.Shape.Period() * 5 / 2
	case SlidingLog:
		return rp.Shape.Period()
	}
	units := (1+*rp.Config.EscalateAt)*float64(rp.Config.Burst) + 2
	return rp.leakTime(units) + rp.slack + bucket.ClockRounding
}

// leakTime returns the time in which that many units leak, rounded up to whole µs, at most
// maxPeriod.
func (rp *RulePlan) leakTime(units float64) time.Duration {
	secs := min(rp.Shape.LeakSeconds(units), maxPeriod.Seconds())
	return time.Duration(secs*1e9) + time.Microsecond
}
