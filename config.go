package fastlimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/field"
)

// Config configures a [Limiter]. The zero value has no rules and is rejected.
type Config struct {
	// Rules are the limits, in the order in which their buckets are charged.
	// At least one, at most 256.
	Rules []RuleConfig

	// Memory bounds the local tier in bytes: the first-seen filter, and for
	// each rule a sketch and a bucket table. What is used is taken by New.
	// Rules share it by need; see [NewPlan]. Slow rules and long windows need
	// more. 0 means 64 MiB; at least 1 MiB, and 256 KiB for each rule.
	Memory int64

	// Store is the exact tier that nodes share, for example one of package
	// bucket/redisstore. nil means that the buckets of this node are exact by
	// themselves. The limiter never closes it: do so once nobody takes any
	// more.
	Store bucket.Store

	// StoreTimeout is J, the longest that a request waits for Store; then
	// its rule's OnFailure answers, and Store must not charge it any more.
	// Admissions may exceed P2's bound by r·J. 0 means 5 ms.
	StoreTimeout time.Duration

	// Clock tells the time instead of the machine's clock, for tests and for
	// judging what has happened before. nil means the machine's monotonic
	// clock; with a Store it must be nil.
	Clock *ManualClock

	// TopTalkers is the number of clients of each rule whose units are
	// counted by name, for other nodes and for those who ask who talks most
	// ([Rule.TopTalkers]). The more, the fewer units of a client can stay untold;
	// each takes [sketch.TalkerSlotBytes] of Memory, and decisions that get past
	// the filter take a tenth to a quarter longer (BenchmarkTalkers). Rounded up to a multiple of four, at most 2^20. 0 means none.
	TopTalkers int

	// Nodes is the most nodes that tell each other of their top talkers,
	// at most 10,000. The more, the longer the first-seen filter must
	// remember, since each node forgives a hit; see [RulePlan.ClusterBound].
	// 0 means 1: this node is alone.
	Nodes int

	// Secret keys all digests. Nodes that compare digests need the same one.
	// The zero value means a random secret, which is right for a single node.
	Secret [32]byte
}

// RuleConfig configures one rule.
type RuleConfig struct {
	// Name identifies the rule in decisions and metrics. Required, unique.
	Name string

	// Rate is the rate r that a client may sustain. Required.
	Rate Rate

	// Burst is B, the units that a client may take at once from rest: nginx's
	// burst plus one. 0 means Rate.N.
	Burst uint64

	// Cost is the number of units that [Rule.Allow] takes. 0 means 1.
	Cost uint64

	// Mode is Enforce or Shadow. A shadow rule decides and counts, and
	// changes nothing.
	Mode Mode

	// EscalateAt is θ, the share of the burst from which on a client is
	// suspected and checked exactly, 0 to 1. Less means less excess (see P2
	// in the package comment) and more exact checks. 0 checks every request
	// but a first-seen one. nil means 0.5, or 0 if Burst is below 10.
	EscalateAt *float64

	// Strict checks every request exactly: neither filter nor sketch. The
	// excess is 0; the price is a bucket for every client alive, so that a
	// flood of one-shot sources fills the table.
	Strict bool

	// OnFailure is what happens to a suspect when Store does not answer in
	// time. The zero value lets this node decide by itself.
	OnFailure OnFailure

	// KeyKind says what the keys of the rule are made of, in words of the
	// caller's. Nodes exchange counts of a rule only where it agrees; see
	// [Rule.Identity]. Optional.
	KeyKind string

	// IPv4Prefix and IPv6Prefix are the prefix lengths that [Rule.AddrKey]
	// groups clients by. 0 means 32 and 64.
	IPv4Prefix, IPv6Prefix int
}

// FieldError is one thing that is wrong with one field of a configuration.
// [New] and [NewPlan] join all that they find; errors.As gets at them.
type FieldError = field.Error

// Bounds on a configuration.
const (
	DefaultMemory = 64 << 20
	MinMemory     = 1 << 20
	MaxRules      = 256
	MaxNodes      = 10_000

	MaxTopTalkers = 1 << 20

	DefaultStoreTimeout = 5 * time.Millisecond

	smallBurst   = 10  // below this θ defaults to 0
	defaultTheta = 0.5 // the sketch settles half the burst without a check
)

// withDefaults returns the rule with its defaults filled in, and all that is
// wrong with it.
func (c RuleConfig) withDefaults() (RuleConfig, error) {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("fastlimit: rule %q: "+format, append([]any{c.Name}, args...)...))
	}
	if c.Name == "" {
		add("Name is empty: every rule needs one")
	}
	if c.Burst == 0 {
		c.Burst = c.Rate.N
	}
	if _, err := bucket.NewShape(c.Rate.N, c.Rate.Per, max(c.Burst, 1)); err != nil {
		if exact, ok := c.Rate.nearestExact(); errors.Is(err, bucket.ErrInexact) && ok {
			add("Rate %v cannot be kept exactly: write %v", c.Rate, exact)
		} else {
			add("%w", err)
		}
	}
	if c.Cost == 0 {
		c.Cost = 1
	}
	if c.Cost > c.Burst {
		add("Cost %d is above Burst %d: no request would ever be admitted", c.Cost, c.Burst)
	}
	if c.Mode > Shadow {
		add("Mode %d: want Enforce or Shadow", c.Mode)
	}
	if c.OnFailure > FailClosed {
		add("OnFailure %d: want FailLocal, FailOpen or FailClosed", c.OnFailure)
	}
	theta := defaultTheta
	switch {
	case c.Strict, c.EscalateAt == nil && c.Burst < smallBurst:
		theta = 0
	case c.EscalateAt != nil:
		theta = *c.EscalateAt
	}
	if !(theta >= 0 && theta <= 1) {
		add("EscalateAt %v: want 0 to 1", theta)
	}
	c.EscalateAt = &theta
	if c.IPv4Prefix == 0 {
		c.IPv4Prefix = 32
	}
	if c.IPv6Prefix == 0 {
		c.IPv6Prefix = 64
	}
	if c.IPv4Prefix < 1 || c.IPv4Prefix > 32 || c.IPv6Prefix < 1 || c.IPv6Prefix > 128 {
		add("prefix lengths /%d and /%d: want 1 to 32 and 1 to 128", c.IPv4Prefix, c.IPv6Prefix)
	}
	return c, errors.Join(errs...)
}

// nearestExact rounds N to as many leading digits as an exact rate allows.
func (r Rate) nearestExact() (Rate, bool) {
	for step := uint64(10); step <= r.N; step *= 10 {
		n := (r.N + step/2) / step * step
		if _, err := bucket.NewShape(n, r.Per, 1); err == nil {
			return Rate{N: n, Per: r.Per}, true
		}
	}
	return Rate{}, false
}
