// Package toptalkers ranks the clients that send the most to a limiter, denied
// requests included. It gives each a rate and a bound on the rate's error, and needs
// neither a cluster nor a server.
//
// [fastlimit.Config.TopTalkers] makes a limiter count; a [Ranking] turns counts
// into rates. It starts no goroutine and reads no clock, so its owner makes two
// calls, both with the limiter's time:
//
//	top := toptalkers.New("this", limiter.Rules())
//	top.Tick(limiter.Now())          // when traffic begins, then once a second
//	top.Top(20, limiter.Now())       // whenever somebody asks
//
// Package server makes these calls itself, and in a cluster package gossip does, adding the
// counts of the other nodes. A limiter must have at most one Ranking, since Tick starts new
// epochs of the limiter's tables.
//
// # What a rate means
//
// Every 5 s Tick marks all counts. A rate is the growth since the mark before the
// last one, divided by the 5 to 10 s since then. It includes units that passed the
// first-seen filter, admitted or not, and units denied by the bucket table. Before
// there are marks it is the mean since the limiter was created.
//
// # What the error includes
//
// A table has a fixed number of slots, for which clients compete. A client may
// therefore have sent units that are in no slot: at most the units its set of slots
// missed in the window, plus what a slot that was then taken over had counted in the
// previous epoch. Denials by the bucket table can reach millions per second and are
// sampled under load, with probability 1/g and a weight of g units; [Doubt.Of]
// bounds the sampling error. Both bounds hold for any traffic. An epoch,
// [sketch.RuleTalkers].Epoch, lasts at least until the fullest bucket has drained; Tick ends it.
//
// [fastlimit.Config.TopTalkers]: https://pkg.go.dev/github.com/fastlimit/fastlimit#Config
package toptalkers

import (
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
)

// Rule is a rule whose top talkers are ranked. *fastlimit.Rule implements it.
// Implementations are safe for concurrent use.
type Rule interface {
	// TopTalkers returns the table of the rule's top talkers; its Table is nil if there is
	// none.
	TopTalkers() sketch.RuleTalkers
}

// Talker is one of the top talkers.
type Talker struct {
	Rule string `json:"rule"`
	Key  string `json:"key"` // as the rule writes it; "?" and a digest while the name is unknown
	// Rate is what the client asked for over the last 5 to 10 s in units/s, denied
	// units included. The true rate is within Rate ± Error, except once in a million
	// times. For other nodes this covers what they have reported: counts in flight,
	// or lost and not yet sent again, are not included.
	//
	// Error is 0 if every client has a slot and few units are denied. It is large
	// for 10 s after a node joins or was silent: the counts that had piled up there
	// arrive at once and are left out of Rate.
	Rate  float64 `json:"rate"`
	Error float64 `json:"error"`
	// Denied is how much of Rate the bucket table or a ban denied, within ± Error. It
	// leaves out denials by the exact bucket alone. For a client that keeps asking that is
	// the first denial of a series, but with [fastlimit.RuleConfig].CountDenied all of them
	// until the window is full.
	Denied float64  `json:"denied"`
	Nodes  []string `json:"nodes"` // names of the nodes that count the client
	// Name is the compact name that Key was written from; empty while it is unknown.
	Name string `json:"-"`
}

// Ranking ranks the top talkers of this node's rules. Safe for concurrent use; now is
// monotonic time with an arbitrary origin, from the same clock in all calls. The zero value
// ranks no clients: call [New].
type Ranking struct {
	node string

	mu     sync.Mutex // guards all below; held for one reading of all tables at most
	tables []table
	ticks  uint64
	ticked time.Duration    // time of the last Mark
	marked [2]time.Duration // times of the last two marks, older first
}

// New returns a Ranking of the rules that have a table of top talkers; others are
// left out. node is the name of this node in [Talker.Nodes].
func New[R Rule](node string, rules []R) *Ranking {
	r := &Ranking{node: node}
	for _, rule := range rules {
		if rule.TopTalkers().Table != nil {
			r.tables = append(r.tables, newTable(rule))
		}
	}
	return r
}

// Rules returns the number of rules that are ranked. Other methods number them from 0, in
// the order of New.
func (r *Ranking) Rules() int { return len(r.tables) }

// Tick sets marks and ends epochs when they are due. Call it about once a second. A
// late call only makes the window of rates longer.
func (r *Ranking) Tick(now time.Duration) {
	r.Mark(now)
	for i := range r.tables {
		r.Rotate(i, now)
	}
}

// Mark is the first half of [Ranking.Tick], for callers that read the tables before
// epochs end, as package delta does. It returns how many marks it set: usually 0,
// otherwise 1, and 2 in the first call, so that no rate includes anything before it.
func (r *Ranking) Mark(now time.Duration) (set int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := now - r.ticked
	r.ticked = now
	switch r.ticks++; {
	case r.ticks == 1:
		r.marked, set = [2]time.Duration{now, now}, 2
		for i := range r.tables {
			r.tables[i].began = now
		}
	case now-r.marked[1] >= marks.Every:
		r.marked, set = [2]time.Duration{r.marked[1], now}, 1
	}
	for i := range r.tables {
		r.tables[i].mark(set)
		if r.ticks > 1 && passed > 0 {
			r.tables[i].talkers.Pace(passed)
		}
	}
	return set
}

// Rotate is the second half of [Ranking.Tick] for one rule: it ends the epoch of
// the rule's table if due, and reports whether it did. An epoch is never shorter
// than the window of rates; otherwise Top would miss clients in slots that the table
// considers idle and lets others take over.
func (r *Ranking) Rotate(rule int, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tables[rule]
	if now-t.began < t.rule.TopTalkers().Epoch || t.began > r.marked[0] {
		return false
	}
	t.began = now
	t.talkers.Turn()
	return true
}
