package state

import (
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/window"
)

// Parts are a limiter's knowledge of its clients, which [Write] writes and [Reader.Restore] fills.
type Parts struct {
	Rules  []RuleParts    // in the header's order
	Filter *window.Filter // nil: there is none
}

// RuleParts are the parts of a rule.
type RuleParts struct {
	Tables []Table       // the rule's own, those of its tiers, those of its live tiers
	Bans   *ban.Table    // nil: the rule does not ban
	Policy *ban.Policy   // of Bans
	Sketch *sketch.Leaky // nil: there is none
	Now    uint64        // the sketch's time when it is written
}

// Table is a table of buckets, with its time when written.
type Table struct {
	*bucket.Table
	Now uint64
}
