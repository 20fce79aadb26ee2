package fastlimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
)

// Plan is how a configuration's memory is shared out and what it can carry.
type Plan struct {
	Memory  int64         // bytes in all, counters excluded
	Window  time.Duration // of the first-seen filter; 0 if no rule uses it
	Clients int           // distinct clients per window that the filter knows
	Rules   []RulePlan    // in the order of Config.Rules

	filterWords int           // per generation
	tierMemory  int64         // of the tiers of all rules
	timeout     time.Duration // J; 0 without a shared exact tier
}

// RulePlan is the share of one rule.
type RulePlan struct {
	Config RuleConfig // with defaults filled in
	Filter bool       // whether the first-seen filter serves this rule
	Cells  int        // of its sketch; 0 without a sketch
	Bytes  int64      // of sketch, table, top talkers and bans

	TopTalkers int // clients tracked individually; 0: none

	// Bans is how many clients the rule can have banned at a time, and BanBytes what its
	// table of them takes; 0 if it bans nobody.
	Bans     int
	BanBytes int64

	// Buckets is the number of suspects that the table holds at a time without
	// giving up the bucket of any.
	Buckets int
	// Overflow is the chance, at most, that the table gives one up although only
	// half as many are alive, for which it is planned.
	Overflow float64
	// RequestsPerSecond is the traffic of distinct clients up to which the
	// sketch stays at load 0.5 and the suspects that could be alive fit half
	// the table. Beyond it more and more requests are checked exactly; from
	// twice that on buckets are lost (P3).
	RequestsPerSecond float64

	// Tiers are those of the rule. Each has neither filter nor sketch. Their memory is
	// not in Bytes.
	Tiers []RulePlan

	clients int // of a tier, at most; 0: not known

	shape  bucket.Shape
	blocks int // of the sketch
	sets   int // of the table

	shared bool // whether there is a shared exact tier

	slack time.Duration // J: what a shared bucket holds more, as time
	nodes int           // N, at least 1
}

const (
	minWindow = time.Second
	maxWindow = time.Hour

	// targetLoad is ρ, at which the noise of a cell has a tail of e^-1.26x.
	targetLoad = 0.5
	// targetNoise is the share of θ·N that noise may be by the end of a window.
	targetNoise = 0.25
	// targetFill leaves half of the buckets for floods that are not planned for.
	// Up to a fill of 1 none is given up; at a half 3 % of them are not in the
	// first set in which they are looked for (bucket.Table).
	targetFill = 0.5

	// targetRPSPerCore is the rate per core beyond which more cells and bits only
	// cost cache misses: no core serves more HTTP requests. Machines are
	// planned as if they had two cores or more.
	targetRPSPerCore = 250e3
	minCores         = 2

	// bitsPerClient of a generation of the filter: at the planned rate a sixth
	// of new clients are then taken for known ones, and the sketch has room for
	// all. With 10 bits it were 2 %, but each look at the filter then misses the
	// nearer caches, which is a quarter of the time of a decision and half of
	// one on a new client (BenchmarkZipf, BenchmarkDistinct).
	bitsPerClient = 4

	// minRuleBytes keeps a rule usable beside much hungrier ones.
	minRuleBytes = 128 << 10

	// minLogs is the least number of clients at a time that logs must be for. With
	// fewer a small flood makes the table forget whom it was to limit.
	minLogs = 1024
)

// NewPlan checks a configuration and shares its memory out. It takes none. Its
// error joins everything that is wrong.
//
// Up to a quarter goes to the first-seen filter. The rules share the rest: what
// a rule's sketch and table must hold at a given traffic is proportional to T =
// 1/r, so slow rules get what fast ones do not need. Nothing gets more than
// serves 250,000 requests per second and core: it would make the working set
// larger and every decision slower.
func NewPlan(c Config) (*Plan, error) {
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	bad := &report{}
	c.checkSizes(bad)
	slots := talkerSlots(c.TopTalkers)
	talkerBytes := slotBytes(slots, len(c.Rules))
	p := &Plan{Rules: make([]RulePlan, 0, len(c.Rules))}
	if c.shared() {
		if p.timeout = c.StoreTimeout; p.timeout <= 0 {
			p.timeout = DefaultStoreTimeout
		}
	}
	seen := map[string]bool{}
	for _, rc := range c.Rules {
		known := len(bad.errs)
		rc = rc.withDefaults(bad)
		if seen[rc.Name] {
			bad.add(rc.Name, "Name", "choose another", "is taken by an earlier rule")
		}
		seen[rc.Name] = true
		if len(bad.errs) > known {
			continue
		}
		rp := newRulePlan(rc, p.timeout, max(1, c.Nodes))
		rp.TopTalkers, rp.shared = slots, c.shared()
		c.checkShared(&rp, bad)
		rp.addTiers(&c, bad)
		p.Rules = append(p.Rules, rp)
	}
	if len(bad.errs) > 0 {
		return nil, errors.Join(bad.errs...)
	}
	if p.planTiers((c.Memory-talkerBytes)/2-c.Reserved, bad); len(bad.errs) > 0 {
		return nil, errors.Join(bad.errs...)
	}
	// Rounded up, as rules whose tables change begin anew: a few more tiers do not.
	step := c.Memory / 16
	budget := c.Memory - talkerBytes - (p.tierMemory+c.Reserved+step-1)/step*step
	banBytes := p.planBans(budget)
	budget -= banBytes
	p.planFilter(budget / 4)
	p.planRules(budget - p.Memory)
	p.Memory += p.tierMemory + c.Reserved + banBytes
	if p.checkLogs(c.Memory, bad); len(bad.errs) > 0 {
		return nil, errors.Join(bad.errs...)
	}
	for i := range p.Rules {
		p.Rules[i].Bytes += slotBytes(slots, 1) + p.Rules[i].BanBytes
	}
	p.Memory += talkerBytes
	return p, nil
}

// checkSizes reports numbers that are out of range, and sets those right that
// others depend on.
func (c *Config) checkSizes(bad *report) {
	if n := len(c.Rules); n == 0 || n > MaxRules {
		bad.add("", "Rules", fmt.Sprintf("want 1 to %d", MaxRules), "%d rules", n)
	}
	if c.TopTalkers < 0 || c.TopTalkers > MaxTopTalkers {
		bad.add("", "TopTalkers", fmt.Sprintf("want 0 to %d", MaxTopTalkers), "%d is out of range", c.TopTalkers)
		c.TopTalkers = 0
	}
	if c.Nodes < 0 || c.Nodes > MaxNodes {
		bad.add("", "Nodes", fmt.Sprintf("want 0 to %d", MaxNodes), "%d is out of range", c.Nodes)
		c.Nodes = 0
	}
	c.Wait.check(bad)
	switch least := LeastMemory(len(c.Rules), 0); {
	case c.Memory < least:
		bad.add("", "Memory", fmt.Sprintf("want at least %s for %d rules", sizeText(least), len(c.Rules)), "%s is too small", sizeText(c.Memory))
	case c.Memory < LeastMemory(len(c.Rules), c.TopTalkers):
		least = (LeastMemory(len(c.Rules), c.TopTalkers) + 1023) &^ 1023
		bad.add("", "TopTalkers", fmt.Sprintf("lower them, or raise memory to %s or more", sizeText(least)),
			"%d clients of each rule do not fit memory %s", c.TopTalkers, sizeText(c.Memory))
	}
}

// shared tells whether there is an exact tier that nodes share.
func (c *Config) shared() bool { return c.Shared || c.Store != nil }

// checkShared reports a rule that the shared tier, if there is one, cannot keep.
// As long as it is not open, it is taken to run everything.
func (c *Config) checkShared(rp *RulePlan, bad *report) {
	rc, algorithm := &rp.Config, rp.shape.Algorithm()
	runs := true
	if c.Store != nil {
		runs = c.Store.Runs(algorithm)
	}
	switch {
	case !c.shared():
	case !runs:
		bad.add("", "Store", "use one that does, or none", "does not run the %v, by which rule %q counts", algorithm, rc.Name)
	case rp.Logged() && !rp.shape.Portable():
		bad.add(rc.Name, "Rate", fmt.Sprintf("want at most %d, or a sliding window", bucket.MaxPortableLog), "a log of %d units is too long for a shared store", rc.Rate.N)
	case !rp.shape.Portable():
		bad.add(rc.Name, "Burst", "lower it", "burst %d at %v takes %v to leak: too long to be kept exactly in a shared store",
			rc.Burst, rc.Rate, rp.drainTime().Round(time.Hour))
	}
}

// LeastMemory is the least [Config.Memory] for so many rules with so many top
// talkers each.
func LeastMemory(rules, topTalkers int) int64 {
	return max(MinMemory, 2*minRuleBytes*int64(rules)) + slotBytes(talkerSlots(topTalkers), rules)
}

// slotBytes is what the top talkers of some rules take.
func slotBytes(slots, rules int) int64 {
	return int64(slots) * int64(sketch.TalkerSlotBytes) * int64(rules)
}

// sizeText is a size as people write it, without rounding.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

func newRulePlan(rc RuleConfig, slack time.Duration, nodes int) RulePlan {
	rp := RulePlan{Config: rc, shape: rc.shape().WithSlack(slack), slack: slack, nodes: nodes}
	rp.Filter = !rc.Strict && rp.window() <= maxWindow
	return rp
}

// Windowed reports whether the rule counts in windows, of Config.Rate.Per each.
func (rp *RulePlan) Windowed() bool { return rp.shape.Windowed() }

// Logged reports whether the rule keeps a log of each suspect, of up to Config.Rate.N
// times of 8 bytes.
func (rp *RulePlan) Logged() bool { return rp.shape.Logged() }

// periodic reports whether the rule counts what a period holds, instead of leaking.
func (rp *RulePlan) periodic() bool { return rp.Windowed() || rp.Logged() }

// sliding reports whether units of two of the sketch's periods can count at once.
func (rp *RulePlan) sliding() bool {
	return rp.Logged() || rp.shape.Algorithm() == SlidingWindow
}

// MaxBurst is the most units that a client is admitted in one window, or in any period
// of a log: (1+θ)·N + 1, and of fixed windows twice that at once where one ends and the
// next begins. Of a bucket it is the most units that a client is admitted at once on one node,
// decisions in flight aside: (1+θ)·B + 1 + r·2 µs, and r·J with a shared exact
// tier (P2). The 1 is the request that the first-seen filter admits, the 2 µs
// are the clock's rounding.
func (rp *RulePlan) MaxBurst() uint64 {
	c := &rp.Config
	most := (1 + *c.EscalateAt) * float64(c.Burst)
	if !rp.periodic() {
		most += c.Rate.PerSecond() * (rp.slack + bucket.ClockRounding).Seconds()
	}
	if rp.Filter {
		most++
	}
	return uint64(most)
}

// drainTime is ((1+θ)·B + 2)·T and the clock's rounding, and J with a shared
// exact tier: a client that was silent for so long has level 0, however much P2 allowed it before. One unit less breaks P2: the
// client would be let in uncounted while its level has not drained.
//
// A window is forgotten when it is over, a sliding one when the next one is, which takes
// up to 8/7 of a period where the wall clock was set back (see package clock); a log after a
// period.
func (rp *RulePlan) drainTime() time.Duration {
	switch rp.shape.Algorithm() {
	case FixedWindow:
		return rp.shape.Period() * 5 / 4
	case SlidingWindow:
		return rp.shape.Period() * 5 / 2
	case SlidingLog:
		return rp.shape.Period()
	}
	units := (1+*rp.Config.EscalateAt)*float64(rp.Config.Burst) + 2
	return rp.leakTime(units) + rp.slack + bucket.ClockRounding
}

// leakTime is the time in which that many units leak, rounded up to whole µs; at
// most maxPeriod.
func (rp *RulePlan) leakTime(units float64) time.Duration {
	secs := min(rp.shape.LeakSeconds(units), maxPeriod.Seconds())
	return time.Duration(secs*1e9) + time.Microsecond
}
