package limit

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/field"
)

// Every mistake must be reported at once, with the rule and the value.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	bad := -0.5
	_, err := NewPlan(Config{Memory: 1000, Rules: []RuleConfig{
		{Name: "", Rate: Rate{1, time.Second}},
		{Name: "dup", Rate: Rate{1, time.Second}},
		{Name: "dup", Rate: Rate{1, time.Second}, Burst: 5, Cost: 6},
		{Name: "none"},
		{Name: "odd", Rate: Rate{100_001, time.Second}},
		{Name: "fast", Rate: Rate{1_000_000_001, time.Second}},
		{Name: "slow", Rate: Rate{1, 48 * time.Hour}},
		{Name: "big", Rate: Rate{1, 24 * time.Hour}, Burst: math.MaxUint64},
		{Name: "theta", Rate: Rate{1, time.Second}, EscalateAt: &bad},
		{Name: "prefix", Rate: Rate{1, time.Second}, IPv4Prefix: 33},
		{Name: "mode", Rate: Rate{1, time.Second}, Mode: 7},
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Memory: 1000 bytes is too small: want at least 2816KiB for 11 rules", "Name: is empty",
		`"dup": Name: is taken by an earlier rule`, `"dup": Cost: cost 6 is above burst 5: no request would ever be admitted: lower it, or raise burst`,
		`"none": Rate: rate 0 per 0s is too slow`, `"odd": Rate: rate 100001/s cannot be kept exactly: write 100000/s`,
		`"fast": Rate: rate 1000000001 per 1s is too fast: want at most 10^9 per second`, `"slow": Rate: `, `"big": Burst: burst 18446744073709551615 at `,
		`"theta": EscalateAt: -0.5 is out of range: want 0 to 1`, `"prefix": IPv4Prefix: /33`, `"mode": Mode: 7`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
	if _, err := NewPlan(Config{}); err == nil || !strings.Contains(err.Error(), "0 rules") {
		t.Errorf("the zero Config: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	p, err := NewPlan(Config{Rules: []RuleConfig{rule("a", 100, time.Second, 0), rule("b", 100, time.Second, 9)}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := p.Rules[0].Config, p.Rules[1].Config
	if a.Burst != 100 || a.Cost != 1 || *a.EscalateAt != 0.5 || a.IPv4Prefix != 32 || a.IPv6Prefix != 64 {
		t.Errorf("defaults: %+v", a)
	}
	if *b.EscalateAt != 0 {
		t.Errorf("a burst below 10 has EscalateAt %v, want 0", *b.EscalateAt)
	}
}

// Every text that NewPlan accepts as a name or a key kind can be restored from a state, and
// the rule with it. Other texts are rejected, with the field.
func TestTextOfRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, kind, field, problem string }{
		{"a\xff", "", "Name", `"a\xff" is not UTF-8`},
		{"a", "k\xfe", "KeyKind", `"k\xfe" is not UTF-8`},
		{"\xed\xa0\x80", "", "Name", `"\xed\xa0\x80" is not UTF-8`}, // half of a surrogate pair
		{"a", "\xc3", "KeyKind", `"\xc3" is not UTF-8`},             // the first byte of two
	} {
		c := rule(tt.name, 1, time.Second, 1)
		c.KeyKind = tt.kind
		_, err := NewPlan(Config{Rules: []RuleConfig{c}})
		var e *FieldError
		if !errors.As(err, &e) || e.Rule != tt.name || e.Field != tt.field || e.Problem != tt.problem || e.Fix == "" {
			t.Errorf("%+q, %+q: %v, want an error of %s", tt.name, tt.kind, err, tt.field)
		}
	}
}

func TestMaxRateMistakes(t *testing.T) {
	t.Parallel()
	half := 0.5
	suspected := rule("a", 10, time.Second, 20)
	suspected.EscalateAt = &half
	costly := rule("a", 10, time.Second, 20)
	costly.Cost = 15
	for _, tt := range []struct {
		c    RuleConfig
		want string
	}{
		{withMaxRate(windowRule("a", 10, time.Second), perSec(20)), "MaxRate"},
		{withMaxRate(rule("a", 10, time.Second, 20), Rate{N: 1}), "MaxRate"},
		{withMaxRate(rule("a", 10, time.Second, 20), perSec(2_000_000_000)), "MaxRate"},
		{withMaxRate(rule("a", 10, time.Second, 20), Rate{N: 5000, Per: 400 * 24 * time.Hour}), "MaxRate"},
		{withMaxRate(rule("a", 2017, time.Second, 20), perSec(5000)), "Rate"},
		{withMaxRate(rule("a", 1, 24*time.Hour, 20), perSec(20)), "Burst"},
		{withMaxRate(suspected, perSec(20)), "EscalateAt"},
		{withMaxRate(costly, perSec(12)), "MaxRate"},
	} {
		_, err := NewPlan(Config{Rules: []RuleConfig{tt.c}})
		if e := field.All(err); len(e) != 1 || e[0].Field != tt.want || e[0].Fix == "" {
			t.Errorf("%v: %v, want one error about %s", tt.c.Rate, err, tt.want)
		}
	}
}

func TestTierMistakes(t *testing.T) {
	t.Parallel()
	many := make([]Tier, MaxTiers+1)
	for _, tt := range []struct {
		c    RuleConfig
		want string
	}{
		{withTiers(rule("a", 1, time.Second, 9), Tier{}, Tier{Rate: Rate{N: 100_003, Per: time.Second}}), "Tiers[1].Rate"},
		{withTiers(logRule("a", 10, time.Second), Tier{Rate: Rate{N: 20_000, Per: time.Second}}), "Tiers[0].Rate"},
		{withTiers(logRule("a", 10, time.Second), Tier{Rate: Rate{N: 500_000, Per: time.Second}, Clients: 50}), "Tiers[0].Rate"},
		{withTiers(RuleConfig{Name: "a", Rate: Rate{N: 9, Per: time.Second}, Cost: 4}, Tier{Burst: 3}), "Tiers[0].Cost"},
		{withTiers(windowRule("a", 9, time.Second), Tier{Burst: 3}), "Tiers[0].Burst"},
		{withTiers(rule("a", 1, time.Second, 9), many...), "Tiers"},
	} {
		_, err := NewPlan(Config{Rules: []RuleConfig{tt.c}})
		if e := field.All(err); len(e) != 1 || e[0].Field != tt.want || e[0].Fix == "" {
			t.Errorf("%+v: %v, want one error about %s", tt.c, err, tt.want)
		}
	}
}

// TestWaitSettings checks which settings of waiting are rejected.
func TestWaitSettings(t *testing.T) {
	t.Parallel()
	window := windowRule("a", 5, time.Minute)
	window.MaxWait = time.Second
	for want, c := range map[string]Config{
		`rule "a": MaxWait: -1s is out of range: want 0 to 1h0m0s`:                 {Rules: []RuleConfig{waitRule("a", 1, 1, -time.Second)}},
		`rule "a": MaxWait: 1h0m0.000000001s is out of range`:                      {Rules: []RuleConfig{waitRule("a", 1, 1, time.Hour+1)}},
		`rule "a": MaxWait: 1s has no meaning with a fixed window`:                 {Rules: []RuleConfig{window}},
		`Wait.PerKey: -1 is out of range: want 1 to 1048576, or 0 for the default`: {Rules: []RuleConfig{waitRule("a", 1, 1, 0)}, Wait: WaitLimits{PerKey: -1}},
		`Wait.Total: 1048577 is out of range`:                                      {Rules: []RuleConfig{waitRule("a", 1, 1, 0)}, Wait: WaitLimits{Total: 1<<20 + 1}},
	} {
		if _, err := NewPlan(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
