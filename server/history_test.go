package server

import (
	"reflect"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// An hour is kept, by the minute, with what has come since; counters that restart take nothing away.
func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	start := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	at := func(second int, admitted, denied uint64) (sample, []decide.RuleStats) {
		r := decide.RuleStats{Name: "r", Mode: "enforce"}
		r.Allowed[fastlimit.StageSketch], r.Denied[fastlimit.StageTable] = admitted, denied
		return sample{at: start.Add(time.Duration(second) * time.Second), requests: decide.Requests{Allowed: admitted, ListDenied: denied}}, []decide.RuleStats{r}
	}
	if l := h.all(at(0, 0, 0)); l.Minutes == nil || len(l.Minutes) != 0 {
		t.Errorf("at first: %+v", l)
	}
	for s := range 100 * 60 {
		h.note(at(s, uint64(s), uint64(2*s)))
	}
	l := h.all(at(100*60+14, 100*60, 2*100*60))
	if len(l.Minutes) != historyMinutes+1 {
		t.Fatalf("%d minutes", len(l.Minutes))
	}
	want := admin.Minute{
		From: start.Add(98 * time.Minute), Seconds: 60, Admitted: 60, Denied: 120,
		Rules: []admin.RuleMinute{{Rule: "r", Mode: "enforce", Admitted: map[string]uint64{"sketch": 60}, Denied: map[string]uint64{"table": 120}}},
	}
	if got := l.Minutes[historyMinutes-1]; !reflect.DeepEqual(got, want) {
		t.Errorf("a minute: %+v", got)
	}
	if got := l.Minutes[historyMinutes]; got.Seconds != 74 || got.Admitted != 60 {
		t.Errorf("what has come since: %+v", got)
	}
	h.note(at(101*60, 100*60, 2*100*60))
	now, rules := at(101*60+1, 100*60, 2*100*60)
	rules[0].Denied[fastlimit.StageTable] = 0
	if got := h.all(now, rules).Minutes; got[len(got)-1].Denied != 0 || len(got[len(got)-1].Rules) != 0 {
		t.Errorf("counters that begin anew: %+v", got[len(got)-1])
	}
}
