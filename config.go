package fastlimit

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/ban"
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

	// Reserved is how much of Memory the caller takes for tables of its own, such as
	// package policy for the overrides of rules. The limiter leaves it alone.
	Reserved int64

	// Store is the exact tier that nodes share, for example one of package
	// bucket/redisstore. nil means that the buckets of this node are exact by
	// themselves. The limiter never closes it: do so once nobody takes any
	// more.
	Store bucket.Store

	// Shared plans for a Store that is opened later: rules are checked, and
	// memory is shared out, as with one. [New] wants the Store itself.
	Shared bool

	// StoreTimeout is J, the longest that a request waits for Store; then
	// its rule's OnFailure answers, and Store must not charge it any more.
	// Admissions may exceed P2's bound by r·J. 0 means 5 ms.
	StoreTimeout time.Duration

	// Clock tells the time instead of the machine's clock, for tests and for
	// replaying the past. nil means the machine's monotonic clock; with a Store
	// it must be nil.
	Clock *ManualClock

	// TopTalkers is the number of clients of each rule that are tracked
	// individually ([Rule.TopTalkers]), for package toptalkers, which ranks them,
	// and for a cluster, which exchanges them. The more, the fewer units of a
	// client can stay unknown; each takes [sketch.TalkerSlotBytes] of Memory, and
	// decisions that get past the filter take a tenth to a quarter longer
	// (BenchmarkTalkers). Rounded up to a multiple of four, at most 2^20. 0 means
	// none.
	TopTalkers int

	// Nodes is the most nodes that tell each other of their top talkers,
	// at most 10,000. The more, the longer the first-seen filter must
	// remember, since each node forgives a hit; see [RulePlan.ClusterBound].
	// 0 means 1: this node is alone.
	Nodes int

	// Wait bounds how many requests wait at a time, of rules with a MaxWait. They
	// take up to WaiterBytes each beside Memory.
	Wait WaitLimits

	// OnBan is called by the request that begins a ban, before it is answered, for rules in
	// shadow mode too: Ban.Rule says which rule that is. It must not block. Bans by
	// [Rule.BanFor] are not told. Optional.
	OnBan func(Ban)

	// OnUnban is called by [Rule.Unban] and [Rule.UnbanDigest] when they have ended a ban, of
	// which Ban has Rule and Digest only. It must not block. Optional.
	OnUnban func(Ban)

	// Secret keys all digests. Nodes that compare digests need the same one.
	// The zero value means a random secret, which is right for a single node.
	Secret [32]byte
}

// RuleConfig configures one rule.
type RuleConfig struct {
	// Name identifies the rule in decisions and metrics. Required, unique, UTF-8.
	Name string

	// Rate is the rate r that a client may sustain. Required.
	Rate Rate

	// Algorithm is how the rule counts. The zero value is [LeakyBucket].
	Algorithm Algorithm

	// CountDenied makes denied requests of a rule that counts in windows count like
	// admitted ones: one that does not fit uses up what is left of a fixed window, and
	// its cost of a sliding one, up to Rate.N in each period.
	CountDenied bool

	// Burst is B, the units that a client may take at once from rest: nginx's
	// burst plus one. 0 means Rate.N. A rule that counts in windows has none.
	Burst uint64

	// Cost is the number of units that [Rule.Allow] takes. 0 means 1.
	Cost uint64

	// Thousandths has costs count thousandths of a unit: Cost, those of a [Charge], what
	// Take, TakeUpTo, Peek, Wait and Refund are given, and what TopTalkers counts. Rates,
	// bursts and [Decision].Remaining, which is rounded down, stay whole units. It is for
	// buckets without MaxRate, whose rate and burst leave room for it: nothing is rounded.
	Thousandths bool

	// MaxWait is how long a request may wait for its units to fit, if it is made by
	// [Rule.Wait] or [Limiter.WaitAll], instead of being denied by this rule. It is for buckets: at
	// the end of a window all who wait would come at once. A shadow rule makes nobody
	// wait. 0 means that nobody waits; at most MaxMaxWait.
	MaxWait time.Duration

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
	// [Rule.Identity]. Optional, UTF-8.
	KeyKind string

	// MaxRate is the highest rate that [Rule.AtRate] gives a client. With it every request
	// is checked exactly, as with Strict: neither filter nor sketch would know what
	// clients take at other rates. It is for buckets. Zero means that nobody names rates.
	MaxRate Rate

	// Ban says which clients are banned because the rule's exact buckets have denied them
	// too often: from then on everything is denied to them by StageBan, until the ban ends.
	// Denials by OnFailure do not count, nor those of a request whose context ends while it
	// waits. A rule in shadow mode bans in shadow. The zero value bans nobody.
	Ban BanPolicy

	// Tiers are other limits, for clients that have one of them instead of Rate and
	// Burst; see [Rule.Tier]. At most [MaxTiers].
	Tiers []Tier

	// IPv4Prefix and IPv6Prefix are the prefix lengths that [Rule.AddrKey]
	// groups clients by. 0 means 32 and 64.
	IPv4Prefix, IPv6Prefix int
}

// BanPolicy says who is banned, and for how long.
type BanPolicy = ban.Policy

// Algorithm is how a rule counts.
type Algorithm = bucket.Algorithm

// The algorithms of a rule.
const (
	// LeakyBucket leaks at the rate and holds the burst.
	LeakyBucket = bucket.LeakyBucket
	// TokenBucket is its mirror: a bucket of burst tokens, full at first, that is
	// refilled at the rate, one token a unit. It decides as LeakyBucket does, and
	// goes on with its state. [Decision].Remaining is the tokens left, TimeToEmpty
	// the time until the bucket is full again.
	TokenBucket = bucket.TokenBucket
	// FixedWindow admits Rate.N units in each period Rate.Per, from a second to 366
	// days, N below 2^32. Periods begin at multiples of it since 1970-01-01 00:00 UTC,
	// by the machine's clock, or the store's if there is one. Around the end of a
	// period a client may take 2·N at once. There is no burst; [Decision].Remaining is
	// of this period, TimeToEmpty the time to its end.
	FixedWindow = bucket.FixedWindow
	// SlidingWindow counts in the periods of FixedWindow, and adds the count of the
	// period before by the share of it that the period ending now would cover: at most
	// Rate.N in all, so no 2·N at once where a period ends. Rate.Per is whole sixteenths of a
	// second; Rate.N is at most 32,767 of a second, 262,143 of a minute, 2,097,151 of an hour.
	SlidingWindow = bucket.SlidingWindow
	// SlidingLog keeps the time of each unit, and admits Rate.N in any period Rate.Per.
	// It takes 8 bytes of memory for each unit of each suspect, which [NewPlan] refuses
	// where they do not fit. Rate.N is at most 4096 with a shared store, else 2^20.
	SlidingLog = bucket.SlidingLog
)

// FieldError is one thing that is wrong with one field of a configuration, in
// strings: Package, Rule if it is a rule's, Field, Problem and Fix. [New] and
// [NewPlan] join all that they find; errors.As gets at them.
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

// report collects what is wrong with a configuration, as [FieldError]s.
type report struct{ errs []error }

func (r *report) add(rule, name, fix, format string, args ...any) {
	r.errs = append(r.errs, &FieldError{Package: "fastlimit", Rule: rule, Field: name, Problem: fmt.Sprintf(format, args...), Fix: fix})
}

// withDefaults returns the rule with its defaults filled in, and reports all
// that is wrong with it.
func (c RuleConfig) withDefaults(bad *report) RuleConfig {
	if c.Name == "" {
		bad.add(c.Name, "Name", "every rule needs one", "is empty")
	}
	c.checkText(bad)
	if c.Algorithm >= bucket.NumAlgorithms {
		bad.add(c.Name, "Algorithm", "want LeakyBucket, TokenBucket, FixedWindow, SlidingWindow or SlidingLog", "%v is not known", c.Algorithm)
	}
	rated := c.checkRate(bad)
	sized := rated || c.Burst > 0
	c.checkWindow(bad)
	if c.Burst == 0 {
		c.Burst = c.Rate.N
	}
	sized = sized && c.checkBurst(bad, rated)
	if c.Cost == 0 {
		c.Cost = c.CostScale()
	}
	switch {
	case !sized || (c.Cost-1)/c.CostScale() < c.Burst:
	case c.periodic():
		bad.add(c.Name, "Cost", "lower it, or raise the rate", "cost %d is above the %d of a period: no request would ever be admitted", c.Cost, c.Burst)
	default:
		bad.add(c.Name, "Cost", "lower it, or raise burst", "cost %s is above burst %d: no request would ever be admitted", c.FormatCost(c.Cost), c.Burst)
	}
	c.checkWait(bad)
	c.checkMaxRate(bad)
	c.checkThousandths(bad)
	var err error
	c.Ban, err = c.Ban.WithDefaults()
	bad.wrap(c.Name, err)
	c.Strict = c.Strict || c.MaxRate != Rate{}
	if c.Mode > Shadow {
		bad.add(c.Name, "Mode", "want Enforce or Shadow", "%d is not a mode", c.Mode)
	}
	if c.OnFailure > FailClosed {
		bad.add(c.Name, "OnFailure", "want FailLocal, FailOpen or FailClosed", "%d is none", c.OnFailure)
	}
	theta := defaultTheta
	switch {
	case c.Strict, c.EscalateAt == nil && c.Burst < smallBurst:
		theta = 0
	case c.EscalateAt != nil:
		theta = *c.EscalateAt
	}
	if !(theta >= 0 && theta <= 1) {
		bad.add(c.Name, "EscalateAt", "want 0 to 1", "%v is out of range", theta)
	}
	c.EscalateAt = &theta
	c.IPv4Prefix, c.IPv6Prefix = cmp.Or(c.IPv4Prefix, 32), cmp.Or(c.IPv6Prefix, 64)
	if c.IPv4Prefix < 1 || c.IPv4Prefix > 32 {
		bad.add(c.Name, "IPv4Prefix", "want 1 to 32", "/%d is out of range", c.IPv4Prefix)
	}
	if c.IPv6Prefix < 1 || c.IPv6Prefix > 128 {
		bad.add(c.Name, "IPv6Prefix", "want 1 to 128", "/%d is out of range", c.IPv6Prefix)
	}
	return c
}

// checkText reports text by which [Load] could not find the rule again: JSON replaces bytes
// that are not UTF-8.
func (c *RuleConfig) checkText(bad *report) {
	for _, t := range [...]struct{ field, text string }{{"Name", c.Name}, {"KeyKind", c.KeyKind}} {
		if !utf8.ValidString(t.text) {
			bad.add(c.Name, t.field, "encode it as UTF-8, or escape it as strconv.Quote does", "%q is not UTF-8", t.text)
		}
	}
}

// shape is the bucket of a rule whose settings are checked and complete.
func (c *RuleConfig) shape() bucket.Shape {
	s, err := c.newShape(c.Burst)
	if err != nil {
		panic("BUG: fastlimit: a checked rule has no shape: " + err.Error())
	}
	return s
}

// newShape is the bucket of a rule, of the given burst if it has one.
func (c *RuleConfig) newShape(burst uint64) (bucket.Shape, error) {
	switch c.Algorithm {
	case FixedWindow:
		return bucket.NewWindow(c.Rate.N, c.Rate.Per)
	case SlidingWindow:
		return bucket.NewSlidingWindow(c.Rate.N, c.Rate.Per)
	case SlidingLog:
		return bucket.NewSlidingLog(c.Rate.N, c.Rate.Per)
	}
	s, err := bucket.NewShape(c.Rate.N, c.Rate.Per, burst)
	if err == nil && c.Thousandths {
		return s.InThousandths()
	}
	if err == nil && c.MaxRate != (Rate{}) {
		return c.fine(s)
	}
	return s, err
}

// periodic reports whether the rule counts what a period holds.
func (c *RuleConfig) periodic() bool {
	return c.Algorithm == FixedWindow || c.Algorithm == SlidingWindow || c.Algorithm == SlidingLog
}

// checkWindow reports what has no meaning with windows, or without.
func (c *RuleConfig) checkWindow(bad *report) {
	switch {
	case c.periodic() && c.Burst != 0 && c.Burst != c.Rate.N:
		bad.add(c.Name, "Burst", "remove it, or choose LeakyBucket", "burst %d has no meaning beside a %v, which admits what its rate says in each period", c.Burst, c.Algorithm)
	case c.CountDenied && (!c.periodic() || c.Algorithm == SlidingLog):
		bad.add(c.Name, "CountDenied", "remove it, or choose FixedWindow or SlidingWindow", "a %v does not count denied requests", c.Algorithm)
	}
}

// checkRate tells whether the rate is one that can be kept.
func (c *RuleConfig) checkRate(bad *report) bool {
	_, err := c.newShape(1)
	if errors.Is(err, bucket.ErrInexact) {
		fix, with := "write fewer digits", ""
		if exact, ok := c.nearestExact(); ok {
			fix = "write " + exact.inSeconds().String()
		} else if c.Thousandths {
			fix = "lower it, or write whole costs"
		}
		if _, err := bucket.NewShape(c.Rate.N, c.Rate.Per, 1); err == nil {
			with = " with costs in thousandths"
		}
		bad.add(c.Name, "Rate", fix, "rate %v cannot be kept exactly%s", c.Rate, with)
	} else {
		bad.wrap(c.Name, err)
	}
	return err == nil
}

// checkBurst holds the burst against the rate, or, where that is wrong, against
// the one that admits the largest bursts.
func (c *RuleConfig) checkBurst(bad *report, rated bool) bool {
	if c.periodic() {
		return rated
	}
	rate := c.Rate
	if !rated {
		rate = Rate{N: 1, Per: time.Microsecond}
	}
	_, err := bucket.NewShape(rate.N, rate.Per, c.Burst)
	if err == nil && rated {
		_, err = c.newShape(c.Burst)
	}
	bad.wrap(c.Name, err)
	return err == nil
}

// wrap reports what package bucket has found, as of a rule.
func (r *report) wrap(rule string, err error) {
	for _, e := range field.All(err) {
		r.add(rule, e.Field, e.Fix, "%s", e.Problem)
	}
}

// nearestExact rounds N of the rate to as many leading digits as an exact rate allows.
func (c *RuleConfig) nearestExact() (Rate, bool) {
	other := *c
	for step := uint64(10); step <= c.Rate.N; step *= 10 {
		other.Rate.N = (c.Rate.N + step/2) / step * step
		if _, err := other.newShape(1); err == nil {
			return other.Rate, true
		}
	}
	return Rate{}, false
}
