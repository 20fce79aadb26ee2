package decide

import (
	"slices"
	"sync"

	"github.com/fastlimit/fastlimit"
)

// RuleStats is what the rules of one name and mode have counted, and the state
// of the one that is in use.
type RuleStats struct {
	Name, Mode string
	InUse      bool // by the current snapshot; else the levels are 0
	fastlimit.RuleStats
}

// ruleHistory keeps the counts of rules that a swap has replaced, so that the sums
// in metrics never fall. A rule that both snapshots have simply goes on counting.
//
// Requests that began before a swap still count on the old rules, which are kept for
// keepRetired seconds; after that only their numbers are. A request that is judged
// even later, because its body was slow, is missing from the sums.
type ruleHistory struct {
	mu      sync.Mutex
	inUse   []*fastlimit.Rule
	retired []retiredRule
	past    map[ruleID]fastlimit.RuleStats
}

type ruleID struct{ name, mode string }

type retiredRule struct {
	*fastlimit.Rule
	seconds int // since the swap
}

// keepRetired is longer than a request takes.
const keepRetired = 60 // seconds

// swap replaces the rules; store does it for requests. Scrapes see both or
// neither.
func (h *ruleHistory) swap(next []*fastlimit.Rule, store func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	store()
	for _, r := range h.inUse {
		if !continued(r, next) {
			h.retired = append(h.retired, retiredRule{Rule: r})
		}
	}
	// One that came back counts by itself again.
	h.retired = slices.DeleteFunc(h.retired, func(r retiredRule) bool { return continued(r.Rule, next) })
	h.inUse = next
}

// continued reports whether one of the rules counts on where r does.
func continued(r *fastlimit.Rule, rules []*fastlimit.Rule) bool {
	return slices.ContainsFunc(rules, func(n *fastlimit.Rule) bool { return n.Continues(r) })
}

// endSecond drops the rules that no request can still be using.
func (h *ruleHistory) endSecond() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = slices.DeleteFunc(h.retired, func(r retiredRule) bool { return r.seconds >= keepRetired && h.foldLocked(r.Rule) })
	for i := range h.retired {
		h.retired[i].seconds++
	}
}

func (h *ruleHistory) foldLocked(r *fastlimit.Rule) bool {
	if h.past == nil {
		h.past = make(map[ruleID]fastlimit.RuleStats)
	}
	id := ruleID{r.Name(), r.Config().Mode.String()}
	sum := h.past[id]
	addCounts(&sum, r.Stats())
	h.past[id] = sum
	return true
}

// addCounts adds up the counters, not the levels.
func addCounts(sum *fastlimit.RuleStats, s fastlimit.RuleStats) {
	for i := range s.Allowed {
		sum.Allowed[i] += s.Allowed[i]
		sum.Denied[i] += s.Denied[i]
	}
	sum.Evictions += s.Evictions
	sum.Forgiven += s.Forgiven
	sum.BadCosts += s.BadCosts
	sum.BadRates += s.BadRates
}

// RuleStats adds up what rules have counted under all snapshots so far, those in
// use first.
func (s *Service) RuleStats() []RuleStats {
	h := &s.rules
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []RuleStats
	at := make(map[ruleID]int)
	add := func(id ruleID, stats fastlimit.RuleStats, inUse bool) {
		i, ok := at[id]
		if !ok {
			at[id] = len(all)
			if !inUse { // its levels mean nothing any more
				stats.SketchLoad, stats.TableLive = 0, 0
			}
			all = append(all, RuleStats{Name: id.name, Mode: id.mode, InUse: inUse, RuleStats: stats})
			return
		}
		addCounts(&all[i].RuleStats, stats)
	}
	for _, r := range h.inUse {
		add(ruleID{r.Name(), r.Config().Mode.String()}, r.Stats(), true)
	}
	for _, r := range h.retired {
		add(ruleID{r.Name(), r.Config().Mode.String()}, r.Stats(), false)
	}
	for id, stats := range h.past {
		add(id, stats, false)
	}
	return all
}
