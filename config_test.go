package fastlimit

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	t.Parallel()
	good := map[string]Rate{
		"100/s": {100, time.Second}, "600/m": {600, time.Minute}, "5/h": {5, time.Hour},
		"1/d": {1, 24 * time.Hour}, "300/15m": {300, 15 * time.Minute}, "1000000000/s": {1e9, time.Second},
	}
	for s, want := range good {
		got, err := ParseRate(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("ParseRate(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "100", "/s", "0/s", "-1/s", "1.5/s", "1/", "1/x", "1/0s", "1/s s", "1/-1s", "1/99999999d", "99999999999999999999/s", "1e3/s", " 1/s"} {
		if got, err := ParseRate(s); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", s, got)
		} else if !strings.Contains(err.Error(), "100/s") {
			t.Errorf("ParseRate(%q): %v: does not say what to write", s, err)
		}
	}
}

func TestRateRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		r := Rate{N: rapid.Uint64Range(1, 1e9).Draw(t, "n"), Per: time.Duration(rapid.IntRange(1, 366).Draw(t, "count")) * unit}
		if got, err := ParseRate(r.String()); err != nil || got != r {
			t.Fatalf("%v reads back as %v, %v", r, got, err)
		}
	})
}

// What a message says to write can be read, also where the period of a rate cannot.
func TestRateInSeconds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate Rate
		want string
	}{
		{Rate{3, 2 * time.Millisecond}, "1500/s"},
		{Rate{1, 334 * time.Millisecond}, "500/167s"},
		{Rate{5, 1500 * time.Millisecond}, "10/3s"},
		{Rate{5, time.Minute}, "5/m"},
		{Rate{7, 7 * time.Second}, "7/7s"},
		{Rate{math.MaxUint64, time.Millisecond}, "18446744073709551615/1ms"},
		{Rate{}, "0/0s"},
	} {
		if got := tt.rate.inSeconds(); got.String() != tt.want {
			t.Errorf("%v: got %v, want %s", tt.rate, got, tt.want)
		}
	}
	_, err := New(Config{Rules: []RuleConfig{{Name: "odd", Rate: Rate{700_001, 7 * time.Millisecond}}}})
	if err == nil || !strings.Contains(err.Error(), "rate 700001/7ms cannot be kept exactly: write 100000000/s") {
		t.Error(err)
	}
}

// Every mistake must be told at once, with the rule and the value.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	bad := -0.5
	_, err := New(Config{Memory: 1000, Rules: []RuleConfig{
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
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "0 rules") {
		t.Errorf("the zero Config: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	lim := mustNew(t, rule("a", 100, time.Second, 0), rule("b", 100, time.Second, 9))
	a, b := lim.rules[0].Config(), lim.rules[1].Config()
	if a.Burst != 100 || a.Cost != 1 || *a.EscalateAt != 0.5 || a.IPv4Prefix != 32 || a.IPv6Prefix != 64 {
		t.Errorf("defaults: %+v", a)
	}
	if *b.EscalateAt != 0 {
		t.Errorf("a burst below 10 has EscalateAt %v, want 0", *b.EscalateAt)
	}
}

func TestPlanSharesMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
		c := Config{Memory: rapid.Int64Range(8<<20, 256<<20).Draw(t, "memory")}
		for i := range rapid.IntRange(1, 20).Draw(t, "rules") {
			rc := RuleConfig{
				Name:   string(rune('a' + i)),
				Rate:   Rate{rapid.Uint64Range(1, 10_000).Draw(t, "n"), rapid.SampledFrom(units).Draw(t, "per")},
				Burst:  rapid.Uint64Range(1, 1000).Draw(t, "burst"),
				Strict: rapid.Bool().Draw(t, "strict"),
			}
			c.Rules = append(c.Rules, rc)
		}
		p, err := NewPlan(c)
		if err != nil {
			t.Fatal(err)
		}
		if p.Memory > c.Memory {
			t.Fatalf("plan takes %d of %d bytes", p.Memory, c.Memory)
		}
		for _, rp := range p.Rules {
			if rp.Buckets < 4 || rp.hasSketch() && rp.Cells < 8 {
				t.Fatalf("rule %s starves: %+v", rp.Config.Name, rp)
			}
			if rp.Filter && p.Window < rp.drainTime() {
				t.Fatalf("window %v is shorter than the drain time %v of rule %s", p.Window, rp.drainTime(), rp.Config.Name)
			}
		}
	})
}

// A rule that needs little must have it beside hungry ones.
func TestPlanServesFastRulesBesideSlowOnes(t *testing.T) {
	t.Parallel()
	p, err := NewPlan(Config{Rules: []RuleConfig{
		rule("slow", 1, 24*time.Hour, 100), rule("fast", 100, time.Second, 200), rule("slower", 1, 24*time.Hour, 1000),
	}})
	if err != nil {
		t.Fatal(err)
	}
	slow, fast, slower := p.Rules[0], p.Rules[1], p.Rules[2]
	if fast.RequestsPerSecond < targetRPS() {
		t.Errorf("the fast rule carries %v requests/s, want %v", fast.RequestsPerSecond, targetRPS())
	}
	if ratio := float64(slow.Bytes) / float64(slower.Bytes); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("two rules of one need get %d and %d bytes", slow.Bytes, slower.Bytes)
	}
	if p.Memory < DefaultMemory*9/10 {
		t.Errorf("%d of %d bytes used though slow rules could use them", p.Memory, DefaultMemory)
	}
}
