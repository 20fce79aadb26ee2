package fastlimit

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// What Save writes: frames (package internal/frames) of these kinds, in this order.
const (
	stateMagic = "fastlst\n"
	// stateVersion counts changes of all that follows, of what the digest of a client is, and
	// of what a word of a table or a sketch means.
	stateVersion = 1

	frameHeader  = 1 // a stateHeader as JSON
	frameSecret  = 2 // 32 bytes
	frameBuckets = 3 // rule, table of it (0: its own, then tiers), bucket.Saving
	frameBans    = 4 // rule, ban.Table.AppendState
	frameSketch  = 5 // rule, sketch.Leaky.AppendState
	frameFilter  = 6 // when it turns
	frameMarks   = 7 // part of what the library writes of both generations
)

// stateHeader says which limiter the state is of, and of when.
type stateHeader struct {
	At     machine.Instant
	Now    time.Duration // on the limiter's line, not before At
	Manual bool          // the line is a [ManualClock]'s
	Wall   time.Duration // on the line of windows

	Shared       bool // with a store
	StoreTimeout time.Duration
	Nodes        int
	Window       time.Duration // of the filter, if there is one
	FilterWords  int
	Rules        []stateRule
}

// stateRule is a rule with the sizes that its memory has.
type stateRule struct {
	Config             RuleConfig
	Blocks, Sets, Bans int
	Tiers              []int // sets
	Live               []stateTier

	live []RulePlan // of Live
}

// stateTier is a tier of [Rule.NewTier].
type stateTier struct {
	Tier Tier
	Sets int
}

// plan is that of the limiter which was saved, of at most so much memory. Of what the
// header says nothing is taken for granted: no more is taken than fits.
func (h *stateHeader) plan(memory int64) (*Plan, *Config, error) {
	c := &Config{Shared: h.Shared, StoreTimeout: h.StoreTimeout, Nodes: h.Nodes}
	if n := len(h.Rules); n == 0 || n > MaxRules || h.Nodes < 0 || h.Nodes > MaxNodes || h.StoreTimeout < 0 || h.Window < 0 {
		return nil, nil, fmt.Errorf("%w: its rules", frames.ErrDamaged)
	}
	m := &sizes{left: memory}
	p := &Plan{Window: h.Window, Nodes: max(1, h.Nodes), FilterWords: m.take(h.FilterWords, 16, h.Window > 0)}
	if h.Shared {
		c.Store, p.StoreTimeout = noStore{}, h.StoreTimeout
	}
	lc, seen := c.limits(), map[string]bool{}
	var wrong error
	for i := range h.Rules {
		sr := &h.Rules[i]
		var rp RulePlan
		if rp, wrong = limit.NewRulePlan(sr.Config, &lc); wrong != nil || seen[rp.Config.Name] || len(rp.Tiers) != len(sr.Tiers) || rp.Filter && h.Window == 0 {
			break
		}
		seen[rp.Config.Name] = true
		rp.Sets, rp.Blocks = m.sets(&rp, sr.Sets), m.take(sr.Blocks, sketch.BlockBytes, rp.HasSketch())
		rp.Bans = m.bans(sr.Bans, rp.Config.Ban.Enabled())
		for k := range rp.Tiers {
			m.left -= limit.TierBytes
			rp.Tiers[k].Sets = m.sets(&rp.Tiers[k], sr.Tiers[k])
		}
		if wrong = sr.planLive(&rp, m); wrong != nil {
			break
		}
		p.Rules = append(p.Rules, rp)
	}
	switch {
	case wrong != nil:
		return nil, nil, fmt.Errorf("%w: its rules: %w", frames.ErrDamaged, wrong)
	case m.bad || len(p.Rules) < len(h.Rules):
		return nil, nil, fmt.Errorf("%w: its rules", frames.ErrDamaged)
	case m.left < 0:
		return nil, nil, fmt.Errorf("%w: more than %s", ErrStateTooLarge, bytesize.Text(memory))
	}
	return p, c, nil
}

// planLive plans the tiers of [Rule.NewTier].
func (sr *stateRule) planLive(rp *RulePlan, m *sizes) (err error) {
	if len(sr.Live) > MaxTiers-len(rp.Tiers) {
		m.bad = true
		return nil
	}
	tiers := make([]Tier, len(sr.Live))
	for i := range sr.Live {
		t := &sr.Live[i].Tier
		tiers[i] = Tier{Rate: t.Rate, Burst: t.Burst}
	}
	if sr.live, err = rp.PlanTiers(tiers); err != nil {
		return err
	}
	for i := range sr.live {
		m.left -= limit.TierBytes
		sr.live[i].Sets = m.sets(&sr.live[i], sr.Live[i].Sets)
	}
	return nil
}

// sizes adds up what is to be taken.
type sizes struct {
	left int64
	bad  bool
}

// take is n, of so many bytes each, or 1 if that cannot be. n must be 0 of what there is not.
func (m *sizes) take(n int, bytes int64, there bool) int {
	switch {
	case !there:
		m.bad = m.bad || n > 0
		return 0
	case n < 0:
		m.bad = true
		return 1
	case int64(n) > max(0, m.left)/bytes:
		m.left = -1
		return 1
	}
	m.left -= int64(n) * bytes
	return n
}

// sets is take of the sets of a table.
func (m *sizes) sets(rp *RulePlan, n int) int {
	if n < 1 {
		m.bad = true
	}
	n = m.take(n, int64(rp.Shape.SetBytes()), true)
	m.left -= int64(rp.Shape.TableBytes(1)) // what is rounded up counts in small tables
	return n
}

// bans is take of bans.
func (m *sizes) bans(n int, there bool) int {
	if n = m.take(n, ban.Bytes(28)/28, there); n > 0 {
		m.left -= ban.Bytes(1)
	}
	return n
}
