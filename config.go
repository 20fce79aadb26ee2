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

	// Memory bounds the local tier in bytes: the first-seen filter, and for each rule a
	// sketch and a bucket table. New allocates what is used. Rules share it by need; see
	// [NewPlan]. Slow rules and long windows need more. 0 means 64 MiB; at least 1 MiB, and
	// 256 KiB for each rule.
	Memory int64

	// Reserved is the part of Memory that the caller uses for its own tables, as package
	// policy does for the overrides of rules. The limiter leaves it alone.
	Reserved int64

	// Store is the exact tier that nodes share, for example one of package
	// bucket/redisstore. nil means that this node's buckets are the exact tier. The limiter
	// never closes it: do so once no more requests are decided.
	Store bucket.Store

	// Shared plans for a Store that is opened later: rules are checked and memory is shared
	// out as if there were one. [New] needs the Store itself.
	Shared bool

	// StoreTimeout is J, the longest that a request waits for Store. After that the rule's
	// OnFailure decides, and Store must not charge the request any more. Admissions may
	// exceed P2's bound by r·J. 0 means 5 ms.
	StoreTimeout time.Duration

	// Clock replaces the machine's clock, for tests and for replaying the past. nil means
	// the machine's monotonic clock. It must be nil with a Store.
	Clock *ManualClock

	// TopTalkers is the number of clients of each rule that are tracked individually
	// ([Rule.TopTalkers]), for package toptalkers, which ranks them, and for a cluster,
	// which exchanges them. A higher number means that fewer units of a client can stay
	// unknown. Each takes [sketch.TalkerSlotBytes] of Memory, and decisions that get past
	// the filter take a tenth to a quarter longer (BenchmarkTalkers). Rounded up to a
	// multiple of four, at most 2^20. 0 means none.
	TopTalkers int

	// Nodes is the maximum number of nodes that exchange their top talkers, at most 10,000.
	// With more nodes the first-seen filter must remember clients for longer, since each
	// node forgives a hit; see [limit.RulePlan].ClusterBound. 0 means 1: this node is
	// alone.
	Nodes int

	// Wait bounds how many requests of rules with a MaxWait wait at a time. They take up to
	// 2 KiB each, on top of Memory.
	Wait WaitLimits

	// OnBan is called by the request that begins a ban, before it is answered. It is also
	// called for rules in shadow mode: check Ban.Rule. It must not block. It is not called
	// for bans that other nodes report. Optional.
	OnBan func(Ban)

	// OnUnban is called by [Rule.Unban] when it has ended a ban. Only the Rule and Digest
	// of the Ban are set. It must not block. Optional.
	OnUnban func(Ban)

	// Secret keys all digests. Nodes that compare digests need the same one.
	// The zero value means a random secret, which is right for a single node.
	Secret [32]byte
}

// engine returns the same configuration as package engine knows it.
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

// NewPlan checks a configuration and shares its memory out, as [limit.NewPlan] does. It
// allocates none of it. Its error joins everything that is wrong.
func NewPlan(c Config) (*Plan, error) {
	ec := c.engine()
	return ec.Plan()
}

// ParseRate reads "100/s", "600/m", "5/h", "1/d" or "300/15m"; see [limit.ParseRate].
func ParseRate(s string) (Rate, error) { return limit.ParseRate(s) }

// The settings of rules, and the sharing out of memory, are those of package limit.
type (
	// Rate is a number of units per period.
	Rate = limit.Rate
	// RuleConfig configures one rule.
	RuleConfig = limit.RuleConfig
	// Tier is another limit of a rule, for clients that have it instead of the rule's.
	Tier = limit.Tier
	// BanPolicy says which clients are banned, and for how long.
	BanPolicy = limit.BanPolicy
	// Algorithm is how a rule counts.
	Algorithm = limit.Algorithm
	// Mode says whether a rule denies requests or only counts those that it would deny.
	Mode = limit.Mode
	// OnFailure says what a rule does with a request if the shared exact tier does not
	// answer in time.
	OnFailure = limit.OnFailure
	// WaitLimits bounds how many requests wait at a time.
	WaitLimits = limit.WaitLimits
	// Plan says how a configuration's memory is shared out and how much traffic it can
	// carry.
	Plan = limit.Plan
	// FieldError is one thing that is wrong with one field of a configuration. [New] and
	// [NewPlan] join all that they find; errors.As extracts them.
	FieldError = limit.FieldError
)

// The decisions and counters of a limiter are those of package limit, too.
type (
	// Decision is the verdict on one request, with what is known about the client's bucket.
	// It is a plain value; the zero value is a denial by a list.
	Decision = limit.Decision
	// Stage names the part of the limiter that decided.
	Stage = limit.Stage
	// RuleStats is a snapshot of one rule's counters; see [Rule.Stats].
	RuleStats = limit.RuleStats
	// WaitStats counts the requests of a rule that waited, or could not.
	WaitStats = limit.WaitStats
	// AuditStats is what a rule has found out about its own accuracy.
	AuditStats = limit.AuditStats
)

// The stages, in the order in which a request meets them. When units are taken, StageBan
// and StageTable only deny, StageFilter and StageSketch only admit, and the others do both.
const (
	StageList     = limit.StageList     // an allow or deny list in front of all rules: package policy, never a Rule
	StageBan      = limit.StageBan      // the client is banned: by a rule, or by an operator in front of all rules
	StageTable    = limit.StageTable    // the table knew the client to be over its limit
	StageFilter   = limit.StageFilter   // first time this window that the client is seen
	StageSketch   = limit.StageSketch   // below the suspicion threshold
	StageExact    = limit.StageExact    // an exact bucket decided
	StageFallback = limit.StageFallback // the shared exact tier was unavailable
)

// RemainingUnknown is the Remaining of a decision that no exact bucket made.
const RemainingUnknown = limit.RemainingUnknown

// The algorithms of a rule.
const (
	LeakyBucket   = limit.LeakyBucket   // leaks at the rate and holds the burst
	TokenBucket   = limit.TokenBucket   // the same, counted down: full at first, and refilled at the rate
	FixedWindow   = limit.FixedWindow   // Rate.N units in each period
	SlidingWindow = limit.SlidingWindow // likewise, plus what is left of the period before
	SlidingLog    = limit.SlidingLog    // Rate.N units in any period, from the time of each unit
)

// The modes, and the failure policies.
const (
	Enforce = limit.Enforce
	Shadow  = limit.Shadow // decide and count, but never deny

	FailLocal  = limit.FailLocal  // this node's table decides
	FailOpen   = limit.FailOpen   // admit
	FailClosed = limit.FailClosed // deny: the stated exception to P1
)

// ManualClock is a clock that moves only when it is set. It is for tests, and for deciding
// about past events, such as those in a log. Put it into [Config.Clock]. It counts time
// from an arbitrary start; the zero value stands at 0. It is safe for concurrent use, and
// several limiters may share one.
type ManualClock engine.ManualClock

// Set moves the clock to now, for all calls from then on. A time before the latest one does
// nothing, so use a monotonic source: if it is set back by an hour, no bucket leaks for an
// hour, and after a single time that is an hour ahead nothing leaks for an hour either. Set
// panics on a time past [Limiter.LastTime], which is four years or more.
func (c *ManualClock) Set(now time.Duration) { (*engine.ManualClock)(c).Set(now) }

// Now returns the time that the clock was last set to.
func (c *ManualClock) Now() time.Duration { return (*engine.ManualClock)(c).Now() }

// SetStart sets the wall time at which the clock stood at 0, for rules that count in
// windows, as those begin by wall time. Without it the clock's 0 is 1970-01-01 00:00 UTC.
// Call it before the clock moves. After that only call it with a later time: an earlier one
// slows windows down.
func (c *ManualClock) SetStart(t time.Time) { (*engine.ManualClock)(c).SetStart(t) }
