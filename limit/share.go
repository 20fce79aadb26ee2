package limit

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/sketch"
)

// targetRPS returns the traffic that this machine is planned for.
func targetRPS() float64 { return targetRPSPerCore * float64(max(minCores, runtime.GOMAXPROCS(0))) }

// planFilter sets the window to the longest drain time of the rules that the filter serves.
func (p *Plan) planFilter(budget int64) {
	for i := range p.Rules {
		if rp := &p.Rules[i]; rp.Filter {
			p.Window = max(p.Window, rp.window(), minWindow)
		}
	}
	if p.Window == 0 {
		return
	}
	need := targetRPS() * p.Window.Seconds() * bitsPerClient / 64
	p.FilterWords = int(min(float64(budget/2/8), need))
	p.Memory = int64(p.FilterWords) * 2 * 8
	p.Clients = sketch.BloomCapacity(p.FilterWords)
}

// sketchBytes and tableBytes return the memory that one request per second needs.
func (rp *RulePlan) sketchBytes() float64 {
	if !rp.HasSketch() {
		return 0
	}
	cells := sketch.Depth * rp.Shape.LeakSeconds(1) / targetLoad // d·rps/(ρ·r)
	if rp.periodic() {
		// By the end of a window, other clients' counts in a client's cells should average
		// targetNoise times what makes a suspect.
		cells = sketch.Depth * rp.perSuspect() / targetNoise
	}
	return cells * 8
}

// perSuspect returns the number of clients that become suspects in a window for each
// request per second, since each has taken θ·N, or half as much if the period slides.
func (rp *RulePlan) perSuspect() float64 {
	units := *rp.Config.EscalateAt * float64(rp.Config.Burst)
	if rp.sliding() {
		units /= 2
	}
	return rp.Shape.Period().Seconds() / max(1, units)
}

func (rp *RulePlan) tableBytes() float64 {
	theta := *rp.Config.EscalateAt
	suspects := rp.Shape.LeakSeconds(1) // live ones: each unit keeps a bucket for T
	switch {
	case rp.periodic():
		if suspects = rp.perSuspect(); rp.sliding() {
			suspects *= 2 // those of the previous window are still alive
		}
	case theta > 0:
		suspects *= (1 + theta) / theta // K of P3
	}
	return suspects / targetFill * float64(rp.Shape.SetBytes()) / 4
}

// planRules shares the budget out by max-min fairness: every rule gets the same, but none
// more than it takes to serve targetRPS, and what such rules leave goes to the others. So a
// fast rule, which needs little, gets that however many slow rules there are.
func (p *Plan) planRules(budget int64) {
	order := make([]*RulePlan, len(p.Rules))
	for i := range p.Rules {
		order[i] = &p.Rules[i]
	}
	slices.SortStableFunc(order, func(a, b *RulePlan) int { return cmp.Compare(a.need(), b.need()) })
	for i, rp := range order {
		share := float64(budget) / float64(len(order)-i)
		rp.take(min(share, max(minRuleBytes, targetRPS()*rp.need())))
		budget -= min(rp.Bytes, int64(share)) // one log may be larger than the share: see checkLogs
		p.Memory += rp.Bytes
	}
}

// checkLogs reports rules whose share of the memory holds too few logs.
func (p *Plan) checkLogs(memory int64, bad *report) {
	for i := range p.Rules {
		rp := &p.Rules[i]
		if c := &rp.Config; rp.Logged() && rp.Buckets < minLogs {
			bad.add(c.Name, "Rate", "lower it, raise the memory, or choose a sliding window",
				"logs of %d units take %s for each client: the rule's share of memory %s holds those of %d, and needs %d at least",
				c.Rate.N, bytesize.Text(int64(rp.Shape.SetBytes()/4)), bytesize.Text(memory), rp.Buckets, minLogs)
		}
		for k := range rp.Tiers {
			t := &rp.Tiers[k]
			need := minLogs
			if t.clients > 0 {
				need = min(need, t.clients)
			}
			if c := &t.Config; t.Logged() && t.Buckets < need {
				bad.add(c.Name, fmt.Sprintf("Tiers[%d].Rate", k), "lower it, raise the memory, or choose a sliding window",
					"logs of %d units take %s for each client: the tier's share of memory %s holds those of %d, and needs %d at least",
					c.Rate.N, bytesize.Text(int64(t.Shape.SetBytes()/4)), bytesize.Text(memory), t.Buckets, need)
			}
		}
	}
}

// need returns the memory for one request per second.
func (rp *RulePlan) need() float64 { return rp.sketchBytes() + rp.tableBytes() }

// ShutBytes is the memory in which a sliding window with a shared exact tier remembers,
// from that tier's answers, for which clients nothing fits.
const ShutBytes = 32 << 10

// take splits a share between sketch and table.
func (rp *RulePlan) take(total float64) {
	shut := int64(0)
	if rp.shared && rp.Shape.Algorithm() == SlidingWindow {
		shut = ShutBytes
	}
	total -= float64(shut)
	rp.RequestsPerSecond = min(targetRPS(), total/rp.need())
	sketchShare := total * rp.sketchBytes() / rp.need()
	rp.Blocks = int(sketchShare) / sketch.BlockBytes
	rp.Sets = rp.Shape.SetsIn(int(total - sketchShare))
	rp.Cells = rp.Blocks * sketch.BlockBytes / 8
	rp.Buckets = rp.Sets * 4
	rp.Overflow = bucket.OverflowChance(rp.Sets, rp.Buckets/2)
	rp.Bytes = int64(rp.Blocks)*sketch.BlockBytes + int64(rp.Shape.TableBytes(rp.Sets)) + shut
}

const (
	// banShare is the share of the memory that all bans together may take.
	banShare = 4
	// maxBans is the largest number of bans that a rule's table is made for.
	maxBans = 1 << 17
)

// planBans allocates a part of a budget to bans.
func (p *Plan) planBans(budget int64) (taken int64) {
	var with []*RulePlan
	for i := range p.Rules {
		if rp := &p.Rules[i]; rp.Config.Ban.Enabled() {
			with = append(with, rp)
		}
	}
	for _, rp := range with {
		rp.Bans = min(maxBans, ban.Size(budget/banShare/int64(len(with))))
		rp.BanBytes = ban.Bytes(rp.Bans)
		taken += rp.BanBytes
	}
	return taken
}
