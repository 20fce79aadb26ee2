package limit

// RuleStats is a snapshot of one rule's counters since the rule was made, or, if it has taken
// over the state of another, since the first of them was made.
type RuleStats struct {
	// Allowed and Denied count decisions by the stage that made them, for example
	// Denied[StageTable]. A shadow rule counts what it would have denied as denied.
	Allowed, Denied [StageFallback + 1]uint64
	// Evictions counts buckets given up before they had drained, because more
	// suspects were alive than the table holds (P3), and Forgiven the units in
	// them: what all clients together got beyond P2 is no more than that.
	Evictions, Forgiven uint64
	// Bans counts bans that have begun, and BansRunning is how many run now. A shadow rule
	// counts what it would have banned.
	Bans        uint64
	BansRunning int
	// BansRefused counts bans that did not begin, because the table of bans had no room.
	BansRefused uint64
	// DenialsUncounted counts denials that count towards no ban, because more clients are
	// denied than the table has room for: those of clients that were denied seldom.
	DenialsUncounted uint64
	// BadCosts and BadRates count requests for which somebody named a cost, or a rate, that
	// cannot be charged: package policy counts them.
	BadCosts, BadRates uint64
	// Waits counts the requests that were denied only for the moment, of the rule and its tiers.
	Waits WaitStats
	// Audit is what the limiter has found out about itself.
	Audit AuditStats
	// SketchLoad is the share of busy cells, 0 without a sketch; of a rule that
	// counts in windows, of those that are halfway to making a suspect. Above 0.5
	// noise makes many clients suspects.
	SketchLoad float64
	// TableLive is how full the table is: its buckets that have not drained, as
	// a share of [limit.RulePlan].Buckets. It may rise to 1.13.
	TableLive float64
}

// WaitStats counts the requests of a rule that were denied only for the moment. Waiting
// is how many wait now; of those that waited before, Admitted were admitted, Left were
// given up by their callers, and Denied were denied: their time had run out, another
// rule denied them, or waiting was stopped. Refused got no place because all that they
// could have were taken; they did not wait, nor did those that would have had to wait for
// longer than MaxWait, which are not counted here.
type WaitStats struct {
	Waiting                         int64
	Admitted, Left, Denied, Refused uint64
}

// AuditStats is what a rule has found out about itself: one client in 1024 is also counted
// exactly, as long as there is room, and its decisions are compared with P1 and P2. Of rules that
// count in windows or logs, have a MaxRate or a shared store it is empty, and what tiers decide is not in it.
type AuditStats struct {
	Clients       int     // that are audited now, of at most 256
	Requests      uint64  // that the sketch was asked about, and denials that were looked at
	FalseDenials  uint64  // of what fits what the client was admitted: P1 is broken
	FalseSuspects uint64  // requests that were checked exactly although their client was below θ·B: by collisions
	Excess        uint64  // requests that were admitted above the burst of P2, which is broken
	Estimated     float64 // sum of the sketch's estimates, in units
	Level         float64 // sum of the levels that they are of, in units
	Peak          float64 // the highest level of any client so far, as a share of the burst of P2
}
