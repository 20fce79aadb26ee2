package fastlimit

import (
	"testing"
	"time"
)

// Counters count on without the rule, and in the rule that goes on with it.
func TestCounters(t *testing.T) {
	t.Parallel()
	if got := (ruleCounters{}).Stats(); got != (RuleStats{}) {
		t.Errorf("the zero value has counted %+v", got)
	}
	old := mustNew(t, strictRule("a", 1, time.Hour, 1))
	r := old.rules[0]
	kept := r.Internal().Counters()
	r.Internal().BadCost()
	r.Internal().BadRate()
	next := mustWith(t, old, Config{Rules: []RuleConfig{strictRule("a", 1, time.Hour, 1)}}).rules[0]
	for range 3 {
		next.Allow(next.BytesKey([]byte("x")))
	}
	got := kept.Stats()
	if got.Allowed[StageExact] != 1 || got.Denied[StageTable] != 2 || got.BadCosts != 1 || got.BadRates != 1 {
		t.Errorf("%+v", got)
	}
	if other := mustNew(t, strictRule("a", 1, time.Hour, 1)).rules[0]; !kept.Of(r) || !kept.Of(next) || kept.Of(other) {
		t.Errorf("of the rule %t, of the one that goes on %t, of another one %t", kept.Of(r), kept.Of(next), kept.Of(other))
	}
}
