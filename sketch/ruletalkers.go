package sketch

import "time"

// RuleTalkers is the table of a rule's top talkers together with what is needed to read it,
// for package toptalkers to rank. The zero value belongs to a rule without a table.
type RuleTalkers struct {
	// Table counts the clients; nil if the rule has no table. It is safe for concurrent use.
	Table *TopTalkers
	// Rule is the rule's name, for display.
	Rule string
	// Unit is how many counts of the table make a unit of the rule: 1, or 1000 if costs are
	// in thousandths.
	Unit uint64
	// Epoch is how long weights accumulate in the table before they are reset: at least the
	// time in which the fullest bucket drains, and 10 s.
	Epoch time.Duration
	// Text returns the text of a client's compact name, [Slot].Name, from this table or
	// from that of the same rule at another node.
	Text func(name []byte) string
}
