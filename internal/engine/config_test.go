package engine

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// All that a plan depends on is taken from the limiter's configuration.
func TestConfigIsPlanned(t *testing.T) {
	t.Parallel()
	c := Config{
		Rules: []limit.RuleConfig{rule("a", 1, time.Second, 2)}, Memory: 8 << 20, Reserved: 1 << 20, Store: nowhere{}, StoreTimeout: time.Second,
		TopTalkers: 4, Nodes: 3, Wait: limit.WaitLimits{PerKey: 1, Total: 2},
	}
	planned, from := reflect.ValueOf(c.limits()), reflect.ValueOf(c)
	for field := range reflect.TypeFor[limit.Config]().Fields() {
		got := planned.FieldByIndex(field.Index)
		if got.IsZero() {
			t.Errorf("%s is not planned for", field.Name)
		}
		if want := from.FieldByName(field.Name); want.IsValid() && field.Name != "Shared" && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s: planned for %v, want %v", field.Name, got, want)
		}
	}
	if open := (&Config{Shared: true}); !open.limits().Shared || open.limits().Runs != nil {
		t.Error("a store that is opened later is not planned for")
	}
}

// A limiter has as many top talkers as are planned, and says what is wrong as the plan does.
func TestLimiterIsPlanned(t *testing.T) {
	t.Parallel()
	lim, err := New(Config{Rules: []limit.RuleConfig{rule("a", 10, time.Second, 20), rule("b", 1, 24*time.Hour, 20)}, TopTalkers: 1022})
	if err != nil {
		t.Fatal(err)
	}
	if r := lim.rules[1]; r.talkers.Slots() != 1024 || lim.plan.Rules[1].TopTalkers != 1024 {
		t.Errorf("a table of %d slots", r.talkers.Slots())
	}
	if lim := mustNew(t, rule("a", 1, time.Second, 1)); lim.rules[0].talkers != nil {
		t.Error("top talkers that nobody asked for")
	}
	if _, err := New(Config{}); err == nil || !strings.HasPrefix(err.Error(), "fastlimit: Rules: 0 rules") {
		t.Errorf("the zero Config: %v", err)
	}
}

// Every stage is counted.
func TestEveryStageIsCounted(t *testing.T) {
	t.Parallel()
	if n := len(limit.Stages()); n != len(limit.RuleStats{}.Denied) {
		t.Errorf("%d stages, %d are counted", n, stageCount)
	}
}
