package decide

import (
	"slices"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// RuleStats is what the rules of one name and mode have counted, and the state of the one in use.
type RuleStats struct {
	Name, Mode string
	InUse      bool // by the current snapshot; if not, the levels are 0
	fastlimit.RuleStats
}

// ruleHistory keeps the counts of rules that a swap has replaced, so that the sums in metrics never fall. A
// rule in both snapshots simply continues counting.
//
// Requests that began before a swap still count on the old rules, whose counters are kept for keepRetired
// seconds; after that only their values are. A request that is judged even later, because its body was slow,
// is missing from the sums. The rules are not kept, since each may take hundreds of MiB and there may be a
// swap a second; except for those of the last swap if requests may wait in their queues, and any others while
// requests do.
type ruleHistory struct {
	mu      sync.Mutex
	inUse   []*fastlimit.Rule
	retired []retiredRule
	past    map[ruleID]fastlimit.RuleStats
}

type ruleID struct{ name, mode string }

type retiredRule struct {
	id       ruleID
	counters engine.Counters
	rule     *fastlimit.Rule // in whose queues requests may wait; nil: none do
	seconds  int             // since the swap
}

func retire(r *fastlimit.Rule) retiredRule {
	config := r.Config()
	old := retiredRule{id: ruleID{r.Name(), config.Mode.String()}, counters: (*engine.Rule)(r).Counters()}
	if config.MaxWait > 0 {
		old.rule = r
	}
	return old
}

// letGo releases the rule, if no request waits for it.
func (r *retiredRule) letGo() {
	if r.rule == nil || r.rule.Stats().Waits.Waiting > 0 {
		return
	}
	r.counters, r.rule = (*engine.Rule)(r.rule).Counters(), nil
}

// counts returns the current counts.
func (r *retiredRule) counts() fastlimit.RuleStats {
	if r.rule != nil {
		return r.rule.Stats()
	}
	return r.counters.Stats()
}

// keepRetired is longer than a request takes.
const keepRetired = 60 // seconds

// swap replaces the rules; store does so for requests. A scrape sees both or neither.
func (h *ruleHistory) swap(next []*fastlimit.Rule, store func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	store()
	for i := range h.retired {
		h.retired[i].letGo()
	}
	for _, r := range h.inUse {
		if !continued(r, next) {
			h.retired = append(h.retired, retire(r))
		}
	}
	// One that came back is counted directly again.
	h.retired = slices.DeleteFunc(h.retired, func(r retiredRule) bool {
		return slices.ContainsFunc(next, func(n *fastlimit.Rule) bool { return r.counters.Of((*engine.Rule)(n)) })
	})
	h.inUse = next
}

// continued reports whether one of the rules continues the counts of r.
func continued(r *fastlimit.Rule, rules []*fastlimit.Rule) bool {
	return slices.ContainsFunc(rules, func(n *fastlimit.Rule) bool { return (*engine.Rule)(n).Continues((*engine.Rule)(r)) })
}

// endSecond drops the rules that no request can still be using.
func (h *ruleHistory) endSecond() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = slices.DeleteFunc(h.retired, func(r retiredRule) bool {
		return r.seconds >= keepRetired && (r.rule == nil || r.rule.Stats().Waits.Waiting == 0) && h.foldLocked(&r)
	})
	for i := range h.retired {
		h.retired[i].seconds++
	}
}

func (h *ruleHistory) foldLocked(r *retiredRule) bool {
	if h.past == nil {
		h.past = make(map[ruleID]fastlimit.RuleStats)
	}
	sum := h.past[r.id]
	addCounts(&sum, r.counts())
	h.past[r.id] = sum
	return true
}

// addCounts adds up the counters, not the levels, except waiting requests, which are a sum themselves.
func addCounts(sum *fastlimit.RuleStats, s fastlimit.RuleStats) {
	for i := range s.Allowed {
		sum.Allowed[i] += s.Allowed[i]
		sum.Denied[i] += s.Denied[i]
	}
	sum.Evictions += s.Evictions
	sum.Forgiven += s.Forgiven
	sum.BadCosts += s.BadCosts
	sum.BadRates += s.BadRates
	sum.Bans += s.Bans
	sum.BansRefused += s.BansRefused
	a := &sum.Audit
	a.Requests += s.Audit.Requests
	a.FalseDenials += s.Audit.FalseDenials
	a.FalseSuspects += s.Audit.FalseSuspects
	a.Excess += s.Audit.Excess
	a.Estimated += s.Audit.Estimated
	a.Level += s.Audit.Level
	w := &sum.Waits
	w.Waiting += s.Waits.Waiting
	w.Admitted += s.Waits.Admitted
	w.Left += s.Waits.Left
	w.Denied += s.Waits.Denied
	w.Refused += s.Waits.Refused
}

// OfName adds up the counts of all rules of a name, in any mode, with the levels of the one in use.
func OfName(stats []RuleStats, name string) (sum fastlimit.RuleStats) {
	for i := range stats {
		s := &stats[i]
		if s.Name != name {
			continue
		}
		addCounts(&sum, s.RuleStats)
		if s.InUse {
			sum.SketchLoad, sum.TableLive, sum.BansRunning = s.SketchLoad, s.TableLive, s.BansRunning
			sum.Audit.Clients, sum.Audit.Peak = s.Audit.Clients, s.Audit.Peak
		}
	}
	return sum
}

// StopWaiting denies all requests that wait for a slot, by the rules of replaced snapshots too. No request
// waits for these rules any more.
func (s *Service) StopWaiting() {
	h := &s.rules
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.inUse {
		(*engine.Rule)(r).Limiter().StopWaiting()
	}
	for _, r := range h.retired {
		if r.rule != nil {
			(*engine.Rule)(r.rule).Limiter().StopWaiting()
		}
	}
}

// RuleStats adds up what rules have counted under all snapshots so far, those in use first.
func (s *Service) RuleStats() []RuleStats { return s.rules.stats() }

func (h *ruleHistory) stats() []RuleStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []RuleStats
	at := make(map[ruleID]int)
	add := func(id ruleID, stats fastlimit.RuleStats, inUse bool) {
		i, ok := at[id]
		if !ok {
			at[id] = len(all)
			if !inUse { // its levels mean nothing any more
				stats.SketchLoad, stats.TableLive, stats.BansRunning = 0, 0, 0
			}
			all = append(all, RuleStats{Name: id.name, Mode: id.mode, InUse: inUse, RuleStats: stats})
			return
		}
		addCounts(&all[i].RuleStats, stats)
	}
	for _, r := range h.inUse {
		add(ruleID{r.Name(), r.Config().Mode.String()}, r.Stats(), true)
	}
	for i := range h.retired {
		add(h.retired[i].id, h.retired[i].counts(), false)
	}
	for id, stats := range h.past {
		add(id, stats, false)
	}
	return all
}
