package limit

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// RuleConfig configures one rule.
type RuleConfig struct {
	// Name identifies the rule in decisions and metrics. Required, unique, UTF-8.
	Name string

	// Rate is the rate r that a client may sustain. Required.
	Rate Rate

	// Algorithm is how the rule counts. The zero value is [LeakyBucket].
	Algorithm Algorithm

	// CountDenied makes denied requests of a rule that counts in windows count like
	// admitted ones: one that does not fit uses up what is left of a fixed window, or its
	// cost in a sliding one, up to Rate.N in each period.
	CountDenied bool

	// Burst is B, the units that a client may take at once from rest: nginx's burst plus
	// one. 0 means Rate.N. A rule that counts in windows has none.
	Burst uint64

	// Cost is the number of units that fastlimit.Rule.Allow takes. 0 means 1.
	Cost uint64

	// Thousandths makes costs count in thousandths of a unit: Cost, the Cost of a
	// fastlimit.Charge, the arguments of Take, TakeUpTo, Peek, Wait and Refund, and the
	// counts of TopTalkers. Rates, bursts and [Decision].Remaining, which is rounded down,
	// stay whole units. It is for buckets without MaxRate whose rate and burst leave room
	// for it: nothing is rounded.
	Thousandths bool

	// MaxWait is how long a request made by fastlimit.Rule.Wait or
	// fastlimit.Limiter.WaitAll may wait for its units to fit instead of being denied by
	// this rule. It is for buckets: at the end of a window all waiters would be admitted at
	// once. Requests never wait for a shadow rule. 0 means that none waits; at most
	// MaxMaxWait.
	MaxWait time.Duration

	// Mode is Enforce or Shadow. A shadow rule decides and counts, and
	// changes nothing.
	Mode Mode

	// EscalateAt is θ, the share of the burst from which on a client is suspected and
	// checked exactly, 0 to 1. A lower value means less excess (see P2 in the comment of
	// package fastlimit) and more exact checks. With 0 every request after a client's first
	// is checked. nil means 0.5, or 0 if Burst is below 10.
	EscalateAt *float64

	// Strict checks every request exactly, without filter and sketch. The excess is then 0.
	// The price is a bucket for every live client, so that a flood of one-shot sources
	// fills the table.
	Strict bool

	// OnFailure says what happens to a suspect if Store does not answer in time. With the
	// zero value this node's table decides.
	OnFailure OnFailure

	// KeyKind describes, in the caller's words, what the keys of the rule are made of.
	// Nodes exchange counts of a rule only if they agree on it; see AppendIdentity.
	// Optional, UTF-8.
	KeyKind string

	// MaxRate is the highest rate that fastlimit.Rule.AtRate gives a client. If it is set,
	// every request is checked exactly, as with Strict, since neither filter nor sketch
	// would know what clients take at other rates. It is for buckets. Zero means that no
	// rates are named for clients.
	MaxRate Rate

	// Ban says which clients are banned because the rule's exact buckets have denied them
	// too often: StageBan then denies them everything until the ban ends. Denials by
	// OnFailure do not count, nor those of a request whose context ends while it waits. A
	// rule in shadow mode bans in shadow. The zero value bans nobody.
	Ban BanPolicy

	// Tiers are other limits, for clients that have one of them instead of Rate and Burst;
	// see fastlimit.Rule.Tier. At most [MaxTiers].
	Tiers []Tier

	// IPv4Prefix and IPv6Prefix are the prefix lengths that fastlimit.Rule.AddrKey
	// groups clients by. 0 means 32 and 64.
	IPv4Prefix, IPv6Prefix int
}

// thousandths is the number of parts of a unit in which costs count with
// [RuleConfig].Thousandths.
const thousandths = 1000

// CostScale returns the cost of one unit: 1, or 1000 with Thousandths.
func (c *RuleConfig) CostScale() uint64 {
	if c.Thousandths {
		return thousandths
	}
	return 1
}

// FormatCost formats a cost of the rule in units: 1500 with Thousandths as "1.5".
func (c *RuleConfig) FormatCost(cost uint64) string {
	text := strconv.FormatUint(cost/c.CostScale(), 10)
	if rest := cost % c.CostScale(); rest > 0 {
		return text + "." + strings.TrimRight(strconv.FormatUint(thousandths+rest, 10)[1:], "0")
	}
	return text
}

// Shape returns the bucket of a rule whose settings are checked and complete.
func (c *RuleConfig) Shape() bucket.Shape {
	s, err := c.newShape(c.Burst)
	if err != nil {
		panic("BUG: fastlimit: a checked rule has no shape: " + err.Error())
	}
	return s
}

// newShape returns the bucket of a rule, with the given burst if it has one.
func (c *RuleConfig) newShape(burst uint64) (bucket.Shape, error) {
	//exhaustive:enforce
	switch c.Algorithm {
	case LeakyBucket, TokenBucket: // below
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

// identityVersion is the version of the digests, names and units that nodes exchange.
const identityVersion = "fastlimit rule v2"

// AppendIdentity appends to b everything that identifies the limit of a checked rule: who
// its clients are, and how much each may take. If two rules differ in any of it, nodes do
// not exchange their counts. fastlimit.Limiter.With lets a rule take over the state of one
// that differs in the shape only. TestEveryRuleFieldIsClassified of internal/engine
// classifies each field of RuleConfig as part of the identity or not.
func (c *RuleConfig) AppendIdentity(b []byte) []byte {
	b = append(b, identityVersion...)
	for _, s := range []string{c.Name, c.KeyKind} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	shape := c.Shape() // without slack, which differs between nodes
	for _, v := range append(shape.Parameters(), uint64(c.IPv4Prefix), uint64(c.IPv6Prefix)) {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// SameClients reports whether both checked rules give a client the same name.
func (c *RuleConfig) SameClients(other *RuleConfig) bool {
	return c.Name == other.Name && c.KeyKind == other.KeyKind && c.IPv4Prefix == other.IPv4Prefix && c.IPv6Prefix == other.IPv6Prefix
}
