package decide

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// shown returns what an admitted client is shown of its limit, according to its request's charges, or nil. It
// does not allocate.
//
// Most requests are admitted by filter or sketch, whose estimates are never shown. But only the exact bucket
// denies, so what fits it is assured (engine.Rule.Assured). Of several rules that apply, the one that admits
// the fewest further requests is shown: a client that follows the numbers of another would run into that one.
// If a shared store may know more about one of them than this node, the fewest are not known; then the
// deciding rule is shown without any, unless it is the only one.
func (j *requestState) shown() (*denial.Answer, fastlimit.Decision) {
	s, v, listener := j.snap, &j.verdict, j.listener
	if v.Rule == nil || !s.denial(v.Rule, listener).always {
		return nil, fastlimit.Decision{}
	}
	decided := v.Decision
	if decided.Degraded {
		decided.Remaining = fastlimit.RemainingUnknown // the store may know more, once it is back
	}
	best, fewest, unknown, rules, told := v.Rule, int64(-1), false, 0, decided
	for _, c := range j.scratch.Applied() {
		if !s.denial(c.Rule, listener).enforced {
			continue
		}
		rules++
		d := decided
		if c.Rule != v.Rule || d.Remaining == fastlimit.RemainingUnknown {
			d = (*engine.Rule)(c.Rule).Assured(engine.Key(c.Key))
		}
		unknown = unknown || d.Remaining == fastlimit.RemainingUnknown
		if requests := d.Remaining * int64((*engine.Rule)(c.Rule).CostScale()) / int64(c.Cost); fewest < 0 || requests < fewest {
			best, fewest, told = c.Rule, requests, d
		}
	}
	if unknown && rules > 1 {
		best, told = v.Rule, decided
		told.Remaining = fastlimit.RemainingUnknown
	}
	return s.denial(best, listener).answer, told
}
