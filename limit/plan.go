package limit

import (
	"errors"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Plan says how a configuration's memory is shared out and how much traffic it can carry.
type Plan struct {
	Memory  int64         // total bytes, without counters and audits
	Window  time.Duration // of the first-seen filter; 0 if no rule uses it
	Clients int           // distinct clients per window that the filter knows
	Rules   []RulePlan    // in the order of Config.Rules

	FilterWords  int           // of the first-seen filter, 64 bits each, in each generation
	Nodes        int           // N, the nodes that exchange their top talkers; at least 1
	StoreTimeout time.Duration // J; 0 without a shared exact tier

	tierMemory int64 // of the tiers of all rules
}

// RulePlan is the share of one rule.
type RulePlan struct {
	Config RuleConfig // with defaults filled in
	Filter bool       // whether the first-seen filter serves this rule
	Cells  int        // of its sketch; 0 without a sketch
	Bytes  int64      // of sketch, table, top talkers and bans

	TopTalkers int // clients tracked individually; 0: none

	// Bans is how many clients the rule can ban at a time, and BanBytes what its table of
	// them takes; 0 if it bans nobody.
	Bans     int
	BanBytes int64

	// Buckets is the number of suspects that the table holds at a time without evicting
	// any.
	Buckets int
	// Overflow is an upper bound of the chance that the table evicts a bucket although only
	// half as many are alive, for which it is planned.
	Overflow float64
	// RequestsPerSecond is the traffic of distinct clients up to which the sketch stays at
	// load 0.5 and the suspects that could be alive fit half the table. Beyond it more and
	// more requests are checked exactly, and from twice that on buckets are lost (P3).
	RequestsPerSecond float64

	// Tiers are those of the rule. They have neither filter nor sketch. Their memory is not
	// in Bytes.
	Tiers []RulePlan

	Shape  bucket.Shape // the bucket, which with a shared exact tier holds r·J more
	Blocks int          // of the sketch, of [sketch.BlockBytes] each
	Sets   int          // of the table, of four buckets each

	clients int  // the most that a tier has; 0: not known
	shared  bool // whether there is a shared exact tier

	slack time.Duration // J: the time that a shared bucket holds on top
	nodes int           // N, at least 1
}

const (
	minWindow = time.Second
	maxWindow = time.Hour

	// targetLoad is ρ, at which the noise of a cell has a tail of e^-1.26x.
	targetLoad = 0.5
	// targetNoise is the share of θ·N that noise may reach by the end of a window.
	targetNoise = 0.25
	// targetFill leaves half of the buckets for floods that are not planned for. Up to a
	// fill of 1 no bucket is evicted; at one half 3 % of them are not in the first set in
	// which they are looked for (bucket.Table).
	targetFill = 0.5

	// targetRPSPerCore is the rate per core beyond which more cells and bits only cost
	// cache misses, as no core serves more HTTP requests. Machines are planned as if they
	// had at least two cores.
	targetRPSPerCore = 250e3
	minCores         = 2

	// bitsPerClient is the number of bits per client in a generation of the filter. At the
	// planned rate it then takes a sixth of new clients for known ones, and the sketch has
	// room for all. With 10 bits that would be 2 %, but each filter lookup would miss the
	// nearer caches, which is a quarter of the time of a decision and half of one on a new
	// client (BenchmarkZipf, BenchmarkDistinct).
	bitsPerClient = 4

	// minRuleBytes keeps a rule usable when others need much more.
	minRuleBytes = 128 << 10

	// minLogs is the minimum number of clients that have room for a log at a time. With
	// fewer a small flood makes the table forget the clients that it should limit.
	minLogs = 1024
)

// NewPlan checks a configuration and shares its memory out. It allocates none of it. Its
// error joins everything that is wrong.
//
// Up to a quarter goes to the first-seen filter. The rules share the rest. What a rule's
// sketch and table must hold at a given traffic is proportional to T = 1/r, so slow rules
// get what fast ones do not need. No rule gets more than it takes to serve 250,000 requests
// per second and core: more would enlarge the working set and slow down every decision.
func NewPlan(c Config) (*Plan, error) {
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	bad := &report{}
	c.checkSizes(bad)
	slots := talkerSlots(c.TopTalkers)
	talkerBytes := slotBytes(slots, len(c.Rules))
	if c.StoreTimeout <= 0 {
		c.StoreTimeout = DefaultStoreTimeout
	}
	p := &Plan{Rules: make([]RulePlan, 0, len(c.Rules)), Nodes: max(1, c.Nodes), StoreTimeout: c.slack()}
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
		rp := c.planRule(rc, bad)
		rp.TopTalkers = slots
		p.Rules = append(p.Rules, rp)
	}
	if len(bad.errs) > 0 {
		return nil, errors.Join(bad.errs...)
	}
	if p.planTiers((c.Memory-talkerBytes)/2-c.Reserved, bad); len(bad.errs) > 0 {
		return nil, errors.Join(bad.errs...)
	}
	// Rounded up, so that a few more tiers do not change the tables of rules.
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

// NewRulePlan checks a rule and its tiers and plans them, except for their sizes. It is for
// a limiter that has these already. It reads Shared, Runs, Nodes and StoreTimeout of c, the
// last without its default.
func NewRulePlan(rc RuleConfig, c *Config) (RulePlan, error) {
	bad := &report{}
	if rc = rc.withDefaults(bad); len(bad.errs) > 0 {
		return RulePlan{}, errors.Join(bad.errs...)
	}
	rp := c.planRule(rc, bad)
	return rp, errors.Join(bad.errs...)
}

// planRule plans a checked rule and its tiers, except for their sizes, and reports what is
// wrong with the tiers.
func (c *Config) planRule(rc RuleConfig, bad *report) RulePlan {
	rp := newRulePlan(rc, c.slack(), max(1, c.Nodes))
	rp.shared = c.Shared
	c.checkShared(&rp, bad)
	rp.addTiers(c, bad)
	return rp
}

// slack returns J, or 0 without a shared tier.
func (c *Config) slack() time.Duration {
	if !c.Shared {
		return 0
	}
	return c.StoreTimeout
}

func newRulePlan(rc RuleConfig, slack time.Duration, nodes int) RulePlan {
	rp := RulePlan{Config: rc, Shape: rc.Shape().WithSlack(slack), slack: slack, nodes: nodes}
	rp.Filter = !rc.Strict && rp.window() <= maxWindow
	return rp
}

// Windowed reports whether the rule counts in windows, of Config.Rate.Per each.
func (rp *RulePlan) Windowed() bool { return rp.Shape.Windowed() }

// Logged reports whether the rule keeps a log of each suspect, of up to Config.Rate.N
// times of 8 bytes.
func (rp *RulePlan) Logged() bool { return rp.Shape.Logged() }

// periodic reports whether the rule counts the units of a period instead of leaking.
func (rp *RulePlan) periodic() bool { return rp.Shape.Algorithm().Periodic() }

// sliding reports whether units from two of the sketch's periods can count at once.
func (rp *RulePlan) sliding() bool {
	return rp.Logged() || rp.Shape.Algorithm() == SlidingWindow
}

// HasSketch reports whether a sketch serves the rule. Without one every request that the filter
// does not admit is checked exactly.
func (rp *RulePlan) HasSketch() bool { return *rp.Config.EscalateAt > 0 }
