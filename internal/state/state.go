// Package state writes and reads the state of a limiter: which frames (package internal/frames)
// there are, in which order, what their header says, and how the first-seen filter is packed. The
// packages of tables, bans and sketches define what is in their frames.
package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/bytesize"
	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// Magic begins a state.
	Magic = "fastlst\n"
	// Version changes whenever anything below changes, or the digest of a client, or the meaning of a word in
	// a table or a sketch.
	Version = 2
)

// The kinds of frames, in this order.
const (
	kindHead    = 1 // a Header as JSON
	kindSecret  = 2 // 32 bytes
	kindBuckets = 3 // rule, table of it (0: its own, then tiers), bucket.Saving
	kindBans    = 4 // rule, ban.Table.AppendState
	kindSketch  = 5 // rule, sketch.Leaky.AppendState
	kindFilter  = 6 // when it rotates
	kindMarks   = 7 // part of what the library writes of both generations
)

// Header describes the limiter of the state, and its time.
type Header struct {
	At     machine.Instant
	Now    time.Duration // on the limiter's line, not before At
	Manual bool          // the line is that of a ManualClock
	Wall   time.Duration // on the line of windows

	Shared       bool // with a store
	StoreTimeout time.Duration
	Nodes        int
	Window       time.Duration // of the filter, if there is one
	FilterWords  int
	Rules        []Rule
}

// Rule is a rule with the sizes of its memory.
type Rule struct {
	Config             limit.RuleConfig
	Blocks, Sets, Bans int
	Tiers              []int // sets
	Live               []Tier
}

// Tier is a tier that was made while the limiter was in use.
type Tier struct {
	Tier limit.Tier
	Sets int
}

// readHeader reads what a frame of kind kindHead holds.
func readHeader(body []byte) (*Header, error) {
	h := new(Header)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", frames.ErrDamaged, err)
	}
	if h.Now < 0 || h.Wall < 0 {
		return nil, fmt.Errorf("%w: its header: a time before its begin", frames.ErrDamaged)
	}
	return h, nil
}

// Plan is the plan of the saved limiter, within that much memory, and of the tiers of each rule that were
// made later. Nothing in the header is trusted: no more is taken than fits.
func (h *Header) Plan(memory int64) (p *limit.Plan, live [][]limit.RulePlan, err error) {
	if n := len(h.Rules); n == 0 || n > limit.MaxRules || h.Nodes < 0 || h.Nodes > limit.MaxNodes || h.StoreTimeout < 0 || h.Window < 0 {
		return nil, nil, fmt.Errorf("%w: its rules", frames.ErrDamaged)
	}
	m := &sizes{left: memory}
	p = &limit.Plan{Window: h.Window, Nodes: max(1, h.Nodes), FilterWords: m.take(h.FilterWords, 16, h.Window > 0)}
	lc := limit.Config{Shared: h.Shared, StoreTimeout: h.StoreTimeout, Nodes: h.Nodes}
	if h.Shared {
		lc.Runs, p.StoreTimeout = func(bucket.Algorithm) bool { return true }, h.StoreTimeout
	}
	seen := map[string]bool{}
	var wrong error
	for i := range h.Rules {
		sr := &h.Rules[i]
		var rp limit.RulePlan
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
		var tiers []limit.RulePlan
		if tiers, wrong = sr.planLive(&rp, m); wrong != nil {
			break
		}
		p.Rules, live = append(p.Rules, rp), append(live, tiers)
	}
	switch {
	case wrong != nil:
		return nil, nil, fmt.Errorf("%w: its rules: %w", frames.ErrDamaged, wrong)
	case m.bad || len(p.Rules) < len(h.Rules):
		return nil, nil, fmt.Errorf("%w: its rules", frames.ErrDamaged)
	case m.left < 0:
		return nil, nil, fmt.Errorf("%w: more than %s", frames.ErrTooLarge, bytesize.Text(memory))
	}
	return p, live, nil
}

// planLive plans the tiers that were made later.
func (sr *Rule) planLive(rp *limit.RulePlan, m *sizes) ([]limit.RulePlan, error) {
	if len(sr.Live) > limit.MaxTiers-len(rp.Tiers) {
		m.bad = true
		return nil, nil
	}
	tiers := make([]limit.Tier, len(sr.Live))
	for i := range sr.Live {
		t := &sr.Live[i].Tier
		tiers[i] = limit.Tier{Rate: t.Rate, Burst: t.Burst}
	}
	live, err := rp.PlanTiers(tiers)
	if err != nil {
		return nil, err
	}
	for i := range live {
		m.left -= limit.TierBytes
		live[i].Sets = m.sets(&live[i], sr.Live[i].Sets)
	}
	return live, nil
}

// sizes adds up the memory to take.
type sizes struct {
	left int64
	bad  bool
}

// take returns n, of items of that many bytes, or 1 if that is impossible. n must be 0 if they are not there.
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

// sets is take for the sets of a table.
func (m *sizes) sets(rp *limit.RulePlan, n int) int {
	if n < 1 {
		m.bad = true
	}
	n = m.take(n, int64(rp.Shape.SetBytes()), true)
	m.left -= int64(rp.Shape.TableBytes(1)) // small tables count as rounded up
	return n
}

// bans is take for bans.
func (m *sizes) bans(n int, there bool) int {
	if n = m.take(n, ban.Bytes(28)/28, there); n > 0 {
		m.left -= ban.Bytes(1)
	}
	return n
}
