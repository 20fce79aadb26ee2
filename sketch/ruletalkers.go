package sketch

import "time"

// RuleTalkers is the table of the top talkers of a rule with what it takes to read it. It is
// what package toptalkers ranks. The zero value is that of a rule which has no table.
type RuleTalkers struct {
	// Table counts the clients; nil if the rule has no table. It is safe for concurrent use.
	Table *TopTalkers
	// Rule is the rule's name, for people.
	Rule string
	// Unit is how many counts of the table make a unit of the rule: 1, or 1000 where costs
	// are in thousandths.
	Unit uint64
	// Epoch is how long weights accumulate in the table before they begin anew: at
	// least the time in which the fullest bucket drains, and 10 s.
	Epoch time.Duration
	// Text is the text of a client's compact name, [Slot].Name, in this table or in that of
	// the same rule at another node.
	Text func(name []byte) string
}
