package limit

import (
	"strings"
	"testing"
	"time"
)

// TestWindowPlans checks what is planned for windows, and what is rejected.
func TestWindowPlans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule    RuleConfig
		shared  bool
		nodes   int
		most    uint64
		cluster uint64
		filter  bool
	}{
		{windowRule("a", 100, time.Second), false, 0, 151, 151, true},
		{windowRule("a", 100, time.Second), true, 0, 151, 151, true},
		{windowRule("a", 100, time.Second), true, 3, 151, 100 + 3*51, true},
		{windowRule("a", 100, time.Second), false, 3, 151, 3 * 151, true},
		{windowRule("a", 5, time.Minute), true, 3, 6, 8, true}, // θ is 0
		{withStrict(windowRule("a", 100, time.Minute)), true, 3, 100, 100, false},
		{windowRule("a", 100, 48*time.Minute), true, 1, 151, 151, true},
		{windowRule("a", 100, 49*time.Minute), true, 1, 150, 150, false},
		{withTheta(windowRule("a", 1<<32-1, 366*24*time.Hour), 1), true, 1, 2 * (1<<32 - 1), 2 * (1<<32 - 1), false},
	} {
		p, err := NewPlan(Config{Rules: []RuleConfig{tt.rule}, Nodes: tt.nodes, Shared: tt.shared})
		if err != nil {
			t.Fatal(err)
		}
		rp := &p.Rules[0]
		rate, burst := rp.ClusterBound(time.Second)
		if rp.MaxBurst() != tt.most || rp.ClusterWindow() != tt.cluster || rp.Filter != tt.filter || !rp.Windowed() ||
			burst != 2*tt.cluster || rate != float64(tt.cluster)/tt.rule.Rate.Per.Seconds() {
			t.Errorf("%+v, %d nodes: %d, %d, filter %t, %v and %d", tt.rule.Rate, tt.nodes, rp.MaxBurst(), rp.ClusterWindow(), rp.Filter, rate, burst)
		}
	}
	for want, c := range map[string]RuleConfig{
		`rule "a": Burst: burst 7 has no meaning with a fixed window`:                                                              {Rate: Rate{5, time.Second}, Algorithm: FixedWindow, Burst: 7},
		`rule "a": CountDenied: a leaky bucket does not count denied requests`:                                                     {Rate: Rate{5, time.Second}, CountDenied: true},
		`rule "a": Algorithm: algorithm 200 is not known: want LeakyBucket, TokenBucket, FixedWindow, SlidingWindow or SlidingLog`: {Rate: Rate{5, time.Second}, Algorithm: 200},
		`rule "a": Rate: a window of 100ms: want 1s to 366d`:                                                                       {Rate: Rate{5, 100 * time.Millisecond}, Algorithm: FixedWindow},
		`rule "a": Rate: 4294967296 units in a window are too many`:                                                                {Rate: Rate{1 << 32, time.Hour}, Algorithm: FixedWindow},
		`rule "a": Cost: cost 6 is above the 5 of a period`:                                                                        {Rate: Rate{5, time.Hour}, Algorithm: FixedWindow, Cost: 6},
	} {
		c.Name = "a"
		if _, err := NewPlan(Config{Rules: []RuleConfig{c}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSlidingPlans checks what is planned for sliding windows and logs, and what is
// rejected.
func TestSlidingPlans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule    RuleConfig
		shared  bool
		nodes   int
		most    uint64
		cluster uint64
		filter  bool
	}{
		{slidingRule("a", 100, time.Second), false, 0, 151, 151, true},
		{slidingRule("a", 100, time.Second), true, 3, 151, 100 + 3*51, true},
		{slidingRule("a", 100, 24*time.Minute), true, 1, 151, 151, true},
		{slidingRule("a", 100, 25*time.Minute), true, 1, 150, 150, false},
		{withStrict(slidingRule("a", 1<<21-1, time.Hour)), true, 3, 1<<21 - 1, 1<<21 - 1, false},
		{logRule("a", 100, time.Second), false, 3, 151, 3 * 151, true},
		{logRule("a", 4096, time.Second), true, 1, 6145, 6145, true},
		{logRule("a", 100, time.Hour), true, 1, 151, 151, true},
		{logRule("a", 100, time.Hour+time.Second), true, 1, 150, 150, false},
	} {
		p, err := NewPlan(Config{Rules: []RuleConfig{tt.rule}, Nodes: tt.nodes, Shared: tt.shared})
		if err != nil {
			t.Fatal(err)
		}
		rp := &p.Rules[0]
		rate, burst := rp.ClusterBound(time.Second)
		if rp.MaxBurst() != tt.most || rp.ClusterWindow() != tt.cluster || rp.Filter != tt.filter || rp.Logged() == rp.Windowed() ||
			burst != 2*tt.cluster || rate != float64(tt.cluster)/tt.rule.Rate.Per.Seconds() || p.Memory > DefaultMemory {
			t.Errorf("%v %+v, %d nodes: %d, %d, filter %t, %v and %d", tt.rule.Algorithm, tt.rule.Rate, tt.nodes, rp.MaxBurst(), rp.ClusterWindow(), rp.Filter, rate, burst)
		}
	}
	long := logRule("a", 100, time.Second)
	long.CountDenied = true
	for want, c := range map[string]Config{
		`rule "a": CountDenied: a sliding log does not count denied requests`:                         {Rules: []RuleConfig{long}},
		`rule "a": Rate: logs of 10000 units take 90037 bytes for each client: the rule's share of`:   {Rules: []RuleConfig{logRule("a", 10_000, time.Second)}},
		`rule "b": Rate: logs of 4000 units take`:                                                     {Rules: []RuleConfig{logRule("a", 10, time.Second), logRule("b", 4000, time.Second)}, Memory: 8 << 20},
		`rule "a": Rate: a log of 4097 units is too long for a shared store: want at most 4096`:       {Rules: []RuleConfig{logRule("a", 4097, time.Second)}, Shared: true},
		`rule "a": Rate: 32768 units in a sliding window of 1s are too many: want at most 32767`:      {Rules: []RuleConfig{slidingRule("a", 1<<15, time.Second)}},
		`rule "a": Rate: period 1.01s is not whole sixteenths of a second: want whole seconds`:        {Rules: []RuleConfig{slidingRule("a", 5, 1010*time.Millisecond)}},
		`rule "a": Cost: cost 6 is above the 5 of a period: no request would ever be admitted: lower`: {Rules: []RuleConfig{func() RuleConfig { c := logRule("a", 5, time.Hour); c.Cost = 6; return c }()}},
	} {
		if _, err := NewPlan(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
