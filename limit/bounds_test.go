package limit

import (
	"testing"
	"time"
)

// In a cluster the filter remembers a client until the hits that all nodes forgive it are 2
// % of the rate.
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

// The cells of a cluster's sketch rise as high as what its nodes may admit together, for
// any rule that is allowed.
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
			_, burst := rp.ClusterBound(heldLag)
			limit := rp.SketchLimit()
			if limit < rp.Shape.Limit() || limit > maxLevel || limit < maxLevel && limit < burst*rp.Shape.Unit() {
				t.Errorf("rule %s, %d nodes: limit %d, bound %d units of %d ticks", rc.Name, nodes, limit, burst, rp.Shape.Unit())
			}
		}
	}
}

func TestClusterBoundFigures(t *testing.T) {
	t.Parallel()
	half := 0.5
	one := RuleConfig{Rate: Rate{100, time.Second}, Burst: 200, EscalateAt: &half}
	checked := RuleConfig{Rate: Rate{100, time.Second}, Burst: 200, EscalateAt: new(float64)}
	const j, lag = 5 * time.Millisecond, 200 * time.Millisecond
	for _, tt := range []struct {
		why   string
		plan  RulePlan
		rate  float64
		burst uint64
	}{
		{"alone", RulePlan{Config: one, Filter: true, nodes: 1, slack: j}, 100, 301},
		{"(1+3θ)B + 3rL + 3 + rJ", RulePlan{Config: one, Filter: true, nodes: 3, slack: j}, 102, 200 + 300 + 60 + 3 + 1},
		{"no filter", RulePlan{Config: one, nodes: 3, slack: j}, 100, 200 + 300 + 60 + 1},
		{"every hit is checked", RulePlan{Config: checked, Filter: true, nodes: 3, slack: j}, 102, 200 + 3 + 1},
		{"no store", RulePlan{Config: one, Filter: true, nodes: 3}, 300, 903},
	} {
		if rate, burst := tt.plan.ClusterBound(lag); rate != tt.rate || burst != tt.burst {
			t.Errorf("%s: %v and %d, want %v and %d", tt.why, rate, burst, tt.rate, tt.burst)
		}
	}
}

// A sketch may stop counting only above every level that P2 allows, and the
// filter may forget only a client that has drained: both include the rounding.
func TestRoundingIsPlanned(t *testing.T) {
	t.Parallel()
	for _, rc := range []RuleConfig{
		rule("a", 1_000_000_000, time.Second, 2_000_000_000), rule("b", 65_533, time.Second, 1_000_000), rule("c", 10, time.Second, 20),
	} {
		p, err := NewPlan(Config{Rules: []RuleConfig{rc}})
		if err != nil {
			t.Fatal(err)
		}
		rp := p.Rules[0]
		highest := rp.Shape.Limit() + rp.Shape.Grace() + rp.Threshold() + (1+64)*rp.Shape.Unit() // of P2, with C = 64
		if got := rp.SketchLimit(); got < highest {
			t.Errorf("%s: cells stop at %d ticks, P2 allows %d", rc.Name, got, highest)
		}
		units := 1.5*float64(rc.Burst) + 2
		least := time.Duration(units/rc.Rate.PerSecond()*1e9) + 2*time.Microsecond
		if got := rp.DrainTime(); got < least {
			t.Errorf("%s: drains in %v, want %v or more", rc.Name, got, least)
		}
		if _, burst := rp.ClusterBound(0); burst < uint64(units-1+1.9e-6*rc.Rate.PerSecond()) {
			t.Errorf("%s: the bound of one node is %d", rc.Name, burst)
		}
		rp.nodes, rp.slack = 2, time.Nanosecond
		if _, burst := rp.ClusterBound(0); burst < uint64(units-1+1.9e-6*rc.Rate.PerSecond())+rc.Burst/2 {
			t.Errorf("%s: the bound of two nodes is %d", rc.Name, burst)
		}
	}
}
