package fastlimit

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/limit"
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
	// remember, since each node forgives a hit; see [limit.RulePlan].ClusterBound.
	// 0 means 1: this node is alone.
	Nodes int

	// Wait bounds how many requests wait at a time, of rules with a MaxWait. They
	// take up to 2 KiB each beside Memory.
	Wait WaitLimits

	// OnBan is called by the request that begins a ban, before it is answered, for rules in
	// shadow mode too: Ban.Rule says which rule that is. It must not block. Bans by
	// other nodes are not told. Optional.
	OnBan func(Ban)

	// OnUnban is called by [Rule.Unban] when it has ended a ban, of
	// which Ban has Rule and Digest only. It must not block. Optional.
	OnUnban func(Ban)

	// Secret keys all digests. Nodes that compare digests need the same one.
	// The zero value means a random secret, which is right for a single node.
	Secret [32]byte
}

// engine is the same configuration as package engine knows it.
func (c *Config) engine() engine.Config {
	return engine.Config{
		Rules: c.Rules, Memory: c.Memory, Reserved: c.Reserved, Store: c.Store, Shared: c.Shared, StoreTimeout: c.StoreTimeout,
		Clock: (*engine.ManualClock)(c.Clock), TopTalkers: c.TopTalkers, Nodes: c.Nodes, Wait: c.Wait,
		OnBan: onBan(c.OnBan), OnUnban: onBan(c.OnUnban), Secret: c.Secret,
	}
}

func onBan(call func(Ban)) func(engine.Ban) {
	if call == nil {
		return nil
	}
	return func(b engine.Ban) { call(newBan(&b)) }
}

// NewPlan checks a configuration and shares its memory out, as [limit.NewPlan] does. It takes
// none. Its error joins everything that is wrong.
func NewPlan(c Config) (*Plan, error) {
	ec := c.engine()
	return ec.Plan()
}

// ParseRate reads "100/s", "600/m", "5/h", "1/d" or "300/15m"; see [limit.ParseRate].
func ParseRate(s string) (Rate, error) { return limit.ParseRate(s) }

// What a rule says, and how memory is shared out, is package limit's.
type (
	// Rate is a number of units per period.
	Rate = limit.Rate
	// RuleConfig configures one rule.
	RuleConfig = limit.RuleConfig
	// Tier is another limit of a rule, which some of its clients have instead of the rule's.
	Tier = limit.Tier
	// BanPolicy says who is banned, and for how long.
	BanPolicy = limit.BanPolicy
	// Algorithm is how a rule counts.
	Algorithm = limit.Algorithm
	// Mode tells whether a rule denies, or only counts what it would deny.
	Mode = limit.Mode
	// OnFailure is what a rule does with a request whose shared exact bucket could not be
	// asked in time.
	OnFailure = limit.OnFailure
	// WaitLimits bounds how many requests wait at a time.
	WaitLimits = limit.WaitLimits
	// Plan is how a configuration's memory is shared out and what it can carry.
	Plan = limit.Plan
	// FieldError is one thing that is wrong with one field of a configuration. [New] and
	// [NewPlan] join all that they find; errors.As gets at them.
	FieldError = limit.FieldError
)

// What a limiter answers is package limit's, too.
type (
	// Decision is the verdict on one request with what is known of the client's bucket. It is
	// a plain value; the zero value is a denial by a list.
	Decision = limit.Decision
	// Stage names the part of the limiter that decided.
	Stage = limit.Stage
	// RuleStats is a snapshot of one rule's counters; see [Rule.Stats].
	RuleStats = limit.RuleStats
	// WaitStats counts the requests of a rule that waited, or could not.
	WaitStats = limit.WaitStats
	// AuditStats is what a rule has found out about itself.
	AuditStats = limit.AuditStats
)

// The stages, in the order in which a request meets them. Taking, StageBan and StageTable only
// deny, StageFilter and StageSketch only admit, and the others do both.
const (
	StageList     = limit.StageList     // an allow or deny list in front of all rules: package policy, never a Rule
	StageBan      = limit.StageBan      // the client is banned: by a rule, or by an operator in front of all rules
	StageTable    = limit.StageTable    // the table knew the client to be over its limit
	StageFilter   = limit.StageFilter   // first sight of the client in this window
	StageSketch   = limit.StageSketch   // below the suspicion threshold
	StageExact    = limit.StageExact    // an exact bucket decided
	StageFallback = limit.StageFallback // the shared exact tier was away
)

// RemainingUnknown is the Remaining of a decision that no exact bucket made.
const RemainingUnknown = limit.RemainingUnknown

// The algorithms of a rule.
const (
	LeakyBucket   = limit.LeakyBucket   // leaks at the rate and holds the burst
	TokenBucket   = limit.TokenBucket   // its mirror: full at first, and refilled at the rate
	FixedWindow   = limit.FixedWindow   // Rate.N units in each period
	SlidingWindow = limit.SlidingWindow // likewise, with what is left of the period before
	SlidingLog    = limit.SlidingLog    // Rate.N units in any period, by the time of each
)

// The modes, and the failure policies.
const (
	Enforce = limit.Enforce
	Shadow  = limit.Shadow // decide and count, but never deny

	FailLocal  = limit.FailLocal  // this node's own table decides
	FailOpen   = limit.FailOpen   // admit
	FailClosed = limit.FailClosed // deny: the stated exception to P1
)

// ManualClock is a clock that moves only when it is told to: for tests, and for
// judging what has happened before, such as a log. Put it into [Config.Clock].
// It tells the time since an arbitrary start; the zero value stands at 0. It is
// safe for concurrent use, and several limiters may share one.
type ManualClock engine.ManualClock

// Set moves the clock to now, for all calls from then on. A time older than the
// latest one moves nothing: so bring a monotonic clock. With one that is set
// back by an hour no bucket leaks for an hour, and after a single time that is
// an hour ahead nothing leaks for an hour. Set panics on a time past
// [Limiter.LastTime], at the earliest four years.
func (c *ManualClock) Set(now time.Duration) { (*engine.ManualClock)(c).Set(now) }

// Now is the time that the clock was set to last.
func (c *ManualClock) Now() time.Duration { return (*engine.ManualClock)(c).Now() }

// SetStart says at which wall time the clock stood at 0, for rules that count in
// windows: those begin by the wall time. Without it the clock's 0 is 1970-01-01
// 00:00 UTC. Set it before the clock moves; later only to a later time: one that
// is earlier slows windows down.
func (c *ManualClock) SetStart(t time.Time) { (*engine.ManualClock)(c).SetStart(t) }
