package engine

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// Counters keep counting without the rule, and in its successor.
func TestCounters(t *testing.T) {
	t.Parallel()
	if got := (Counters{}).Stats(); got != (limit.RuleStats{}) {
		t.Errorf("the zero value has counted %+v", got)
	}
	old := mustNew(t, strictRule("a", 1, time.Hour, 1))
	r := old.rules[0]
	kept := r.Counters()
	r.BadCost()
	r.BadRate()
	next := mustWith(t, old, Config{Rules: []limit.RuleConfig{strictRule("a", 1, time.Hour, 1)}}).rules[0]
	for range 3 {
		next.Allow(next.BytesKey([]byte("x")))
	}
	got := kept.Stats()
	if got.Allowed[limit.StageExact] != 1 || got.Denied[limit.StageTable] != 2 || got.BadCosts != 1 || got.BadRates != 1 {
		t.Errorf("%+v", got)
	}
	if other := mustNew(t, strictRule("a", 1, time.Hour, 1)).rules[0]; !kept.Of(r) || !kept.Of(next) || kept.Of(other) {
		t.Errorf("of the rule %t, of the one that goes on %t, of another one %t", kept.Of(r), kept.Of(next), kept.Of(other))
	}
}
