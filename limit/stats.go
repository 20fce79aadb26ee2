package limit

// RuleStats is a snapshot of one rule's counters since the rule was made or, if it has
// taken over the state of another, since the first of them was made.
type RuleStats struct {
	// Allowed and Denied count decisions by the stage that made them, for example
	// Denied[StageTable]. A shadow rule counts what it would have denied as denied.
	Allowed, Denied [StageFallback + 1]uint64
	// Evictions counts buckets that were evicted before they had drained, because more
	// suspects were alive than the table holds (P3). Forgiven counts the units in them: all
	// clients together got no more than that beyond P2.
	Evictions, Forgiven uint64
	// Bans counts bans that have begun, and BansRunning is how many are in force. A shadow
	// rule counts the clients that it would have banned.
	Bans        uint64
	BansRunning int
	// BansRefused counts bans that did not begin, because the table of bans had no room.
	BansRefused uint64
	// DenialsUncounted counts denials that count towards no ban, because more clients are
	// denied than the table has room for. They are of clients that were seldom denied.
	DenialsUncounted uint64
	// BadCosts and BadRates count requests that came with a cost, or a rate, that cannot be
	// charged. Package policy counts them.
	BadCosts, BadRates uint64
	// Waits counts requests of the rule and its tiers that were denied only for the moment.
	Waits WaitStats
	// Audit is what the limiter has found out about its own accuracy.
	Audit AuditStats
	// SketchLoad is the share of busy cells, or 0 without a sketch. For a rule that counts
	// in windows it is the share of cells that are halfway to making a suspect. Above 0.5
	// noise makes many clients suspects.
	SketchLoad float64
	// TableLive is the number of buckets in the table that have not drained, as a share of
	// [limit.RulePlan].Buckets. It may rise to 1.13.
	TableLive float64
}

// WaitStats counts the requests of a rule that were denied only for the moment. Waiting is
// how many wait now. Of those that waited before, Admitted were admitted, Left were given
// up by their callers, and Denied were denied: their time had run out, another rule denied
// them, or waiting was stopped. Refused found no free slot and did not wait. Requests that
// would have had to wait for longer than MaxWait are not counted here.
type WaitStats struct {
	Waiting                         int64
	Admitted, Left, Denied, Refused uint64
}

// AuditStats is what a rule has found out about its own accuracy. One client in 1024 is
// also counted exactly, as long as there is room, and the rule's decisions on it are
// compared with P1 and P2. AuditStats is empty for rules that count in windows or logs,
// have a MaxRate or a shared store, and does not include decisions of tiers.
type AuditStats struct {
	Clients       int     // audited now, at most 256
	Requests      uint64  // checks by the sketch, and denials that were examined
	FalseDenials  uint64  // denials of requests that would have fit what the client was admitted: P1 is broken
	FalseSuspects uint64  // requests that were checked exactly because of collisions, as their client was below θ·B
	Excess        uint64  // requests admitted above the burst of P2: P2 is broken
	Estimated     float64 // sum of the sketch's estimates, in units
	Level         float64 // sum of the exact levels at these estimates, in units
	Peak          float64 // the highest level of any client so far, as a share of the burst of P2
}
