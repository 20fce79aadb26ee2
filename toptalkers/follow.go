package toptalkers

import "slices"

// Follow returns a Ranking of other rules, under the same node name. Where a rule has the
// same table as one of r's, it takes over the marks and epochs of r. Call it after
// [fastlimit.Limiter.With], then drop r.
func Follow[R Rule](r *Ranking, rules []R) *Ranking {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &Ranking{node: r.node, ticks: r.ticks, ticked: r.ticked, marked: r.marked}
	for _, rule := range rules {
		if rule.TopTalkers().Table != nil {
			next.tables = append(next.tables, r.followLocked(rule))
		}
	}
	return next
}

func (r *Ranking) followLocked(rule Rule) table {
	for i := range r.tables {
		if t := r.tables[i]; t.talkers == rule.TopTalkers().Table {
			t.rule, t.slots, t.missed = rule, slices.Clone(t.slots), slices.Clone(t.missed) // r may still be in use
			return t
		}
	}
	t := newTable(rule)
	t.began = r.ticked
	if r.ticks > 0 {
		t.mark(2)
	}
	return t
}
