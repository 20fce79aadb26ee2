package fastlimit

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// In a cluster the filter remembers a client until all that the nodes forgive
// it is 2 % of the rate.
func TestPlanWindowOfCluster(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		nodes  int
		rule   RuleConfig
		filter bool
		window time.Duration
	}{
		{0, rule("a", 10, time.Second, 20), true, 3200 * time.Millisecond}, // drain time
		{1, rule("a", 10, time.Second, 20), true, 3200 * time.Millisecond},
		{2, rule("a", 10, time.Second, 20), true, 10 * time.Second}, // 2 · 0.1 s / 0.02
		{100, rule("a", 10, time.Second, 20), true, 500 * time.Second},
		{1000, rule("a", 10, time.Second, 20), false, 0}, // more than an hour
		{3, rule("a", 1, time.Minute, 20), false, 0},
	} {
		p, err := NewPlan(Config{Rules: []RuleConfig{tt.rule}, Nodes: tt.nodes})
		if err != nil {
			t.Fatal(err)
		}
		if p.Rules[0].Filter != tt.filter || p.Window < tt.window || p.Window > tt.window+time.Millisecond {
			t.Errorf("%d nodes, %v: filter %v, window %v, want %v, %v", tt.nodes, tt.rule.Rate, p.Rules[0].Filter, p.Window, tt.filter, tt.window)
		}
	}
}

// The cells of a cluster's sketch rise as high as what its nodes may admit
// together, for any rule that is allowed.
func TestSketchLimitOfCluster(t *testing.T) {
	t.Parallel()
	for _, rc := range []RuleConfig{
		rule("a", 100, time.Second, 200), rule("slow", 1, 24*time.Hour, 100), rule("fast", 1e9, time.Second, 1e9),
		withTheta(rule("long", 1, 24*time.Hour, 1<<22), 1),
	} {
		for _, nodes := range []int{2, 10, MaxNodes} {
			p, err := NewPlan(Config{Rules: []RuleConfig{rc}, Nodes: nodes})
			if err != nil {
				t.Fatal(err)
			}
			rp := &p.Rules[0]
			r := &Rule{config: rp.Config, buckets: buckets{shape: rp.shape}}
			_, burst := rp.ClusterBound(heldLag)
			limit := r.sketchLimit(rp)
			if limit < rp.shape.Limit() || limit > maxLevel || limit < maxLevel && limit < burst*rp.shape.Unit() {
				t.Errorf("rule %s, %d nodes: limit %d, bound %d units of %d ticks", rc.Name, nodes, limit, burst, rp.shape.Unit())
			}
		}
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
		if tiers := int64(rp.Cells)*8 + int64(rp.shape.TableBytes(rp.Buckets/4)); rp.Bytes != tiers+1024*int64(sketch.TalkerSlotBytes) {
			t.Errorf("rule %s: %d bytes, of which %d for sketch and table", rp.Config.Name, rp.Bytes, tiers)
		}
		filter -= rp.Bytes
	}
	if p.Memory > DefaultMemory || filter != int64(p.filterWords)*16 {
		t.Errorf("%d bytes in all, %d for the filter", p.Memory, filter)
	}
	lim, err := newLimiter(p, &Config{Secret: sketch.Secret{1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := lim.rules[1]; r.TopTalkers().Slots() != 1024 {
		t.Errorf("a table of %d slots", r.TopTalkers().Slots())
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
	if lim := mustNew(t, rule("a", 1, time.Second, 1)); lim.rules[0].TopTalkers() != nil {
		t.Error("top talkers that nobody asked for")
	}
}

// LeastMemory is what NewPlan takes, and no more.
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
