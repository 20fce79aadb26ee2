package limit

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
	"pgregory.net/rapid"
)

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
			if rp.Buckets < 4 || rp.HasSketch() && rp.Cells < 8 {
				t.Fatalf("rule %s starves: %+v", rp.Config.Name, rp)
			}
			if rp.Filter && p.Window < rp.DrainTime() {
				t.Fatalf("window %v is shorter than the drain time %v of rule %s", p.Window, rp.DrainTime(), rp.Config.Name)
			}
		}
	})
}

// A rule that needs little must get that even if others need much more.
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

func TestPlanCountsTopTalkers(t *testing.T) {
	t.Parallel()
	c := Config{Rules: []RuleConfig{rule("a", 10, time.Second, 20), rule("b", 1, 24*time.Hour, 20)}, TopTalkers: 1022}
	p, err := NewPlan(c)
	if err != nil {
		t.Fatal(err)
	}
	filter := p.Memory
	for _, rp := range p.Rules {
		if rp.TopTalkers != 1024 {
			t.Errorf("rule %s: %d top talkers, want whole sets", rp.Config.Name, rp.TopTalkers)
		}
		if tiers := int64(rp.Cells)*8 + int64(rp.Shape.TableBytes(rp.Buckets/4)); rp.Bytes != tiers+1024*int64(sketch.TalkerSlotBytes) {
			t.Errorf("rule %s: %d bytes, of which %d for sketch and table", rp.Config.Name, rp.Bytes, tiers)
		}
		filter -= rp.Bytes
	}
	if p.Memory > DefaultMemory || filter != int64(p.FilterWords)*16 {
		t.Errorf("%d bytes in all, %d for the filter", p.Memory, filter)
	}
	c.Memory = MinMemory
	c.TopTalkers = 1 << 14
	if _, err = NewPlan(c); err == nil || !strings.Contains(err.Error(), "TopTalkers: 16384 clients of each rule do not fit memory 1MiB: lower them, or raise memory to 4736KiB or more") {
		t.Errorf("more top talkers than memory: %v", err)
	}
	c = Config{Rules: c.Rules, TopTalkers: MaxTopTalkers + 1, Nodes: -1}
	if _, err = NewPlan(c); err == nil || !strings.Contains(err.Error(), "TopTalkers: 1048577 is out of range: want 0 to 1048576") || !strings.Contains(err.Error(), "Nodes: -1 is out of range: want 0 to 10000") {
		t.Errorf("out of bounds: %v", err)
	}
	if p, err := NewPlan(Config{Rules: c.Rules}); err != nil || p.Rules[0].TopTalkers != 0 {
		t.Errorf("top talkers that nobody asked for: %v", err)
	}
}

// LeastMemory is the least that NewPlan accepts, and no more.
func TestLeastMemory(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 4, 5, 100, MaxRules} {
		var rules []RuleConfig
		for i := range n {
			rules = append(rules, rule(strconv.Itoa(i), 1, time.Second, 1))
		}
		for _, slots := range []int{0, 7, 8, 1024} {
			c := Config{Rules: rules, TopTalkers: slots, Memory: LeastMemory(n, slots)}
			if _, err := NewPlan(c); err != nil {
				t.Errorf("%d rules, %d talkers: %v", n, slots, err)
			}
			c.Memory--
			if _, err := NewPlan(c); err == nil {
				t.Errorf("%d rules, %d talkers: less than %d is enough", n, slots, c.Memory+1)
			}
		}
	}
}

// Bans take their share of the memory, however many rules have any, and mistakes in them
// are reported by field.
func TestPlanOfBans(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 256} {
		c := Config{Memory: LeastMemory(n, 0)}
		for i := range n {
			c.Rules = append(c.Rules, withBan(rule(string(rune('a'+i)), 1, time.Second, 20), BanPolicy{After: 1, For: time.Second}))
		}
		p, err := NewPlan(c)
		if err != nil {
			t.Fatal(err)
		}
		bytes := int64(0)
		for i := range p.Rules {
			rp := &p.Rules[i]
			if bytes += rp.BanBytes; rp.Bans < 200 || rp.BanBytes > 200*int64(rp.Bans)+1<<10 || rp.Bytes < rp.BanBytes {
				t.Errorf("%d rules: %d bans in %d bytes of %d", n, rp.Bans, rp.BanBytes, rp.Bytes)
			}
		}
		if p.Memory > c.Memory || bytes > c.Memory/banShare {
			t.Errorf("%d rules: %d bytes, bans %d, of %d", n, p.Memory, bytes, c.Memory)
		}
	}
	if p, err := NewPlan(Config{Rules: []RuleConfig{rule("a", 1, time.Second, 20)}}); err != nil || p.Rules[0].Bans+int(p.Rules[0].BanBytes) != 0 {
		t.Errorf("without bans: %+v, %v", p, err)
	}
	_, err := NewPlan(Config{Rules: []RuleConfig{withBan(rule("a", 1, time.Second, 20), BanPolicy{After: -1, For: time.Millisecond})}})
	var e *FieldError
	if !errors.As(err, &e) || e.Rule != "a" || e.Field != "Ban.After" || !strings.Contains(err.Error(), "Ban.For: 1ms is out of range: want 1s to 8784h0m0s") {
		t.Errorf("%v", err)
	}
}
