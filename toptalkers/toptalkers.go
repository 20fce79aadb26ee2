// Package toptalkers ranks the clients that send most to a limiter, denied
// requests included: with rates, with a bound on the error of each, without a
// cluster and without a server.
//
// [fastlimit.Config.TopTalkers] has a limiter count; a [Ranking] turns counts
// into rates. It starts no goroutine and reads no clock, so two calls are up to
// its owner, both with the limiter's time:
//
//	top := toptalkers.New("this", limiter.Rules())
//	top.Tick(limiter.Now())          // when traffic begins, then once a second
//	top.Top(20, limiter.Now())       // whenever somebody asks
//
// Package server does both by itself. In a cluster package gossip does, with
// what the other nodes count on top. A limiter has one Ranking at most, since
// Tick begins new epochs of the limiter's tables.
//
// # What a rate means
//
// Every 5 s Tick marks all counts. A rate is the growth since the mark before the
// last one, over the 5 to 10 s since then: units that passed the first-seen filter
// (admitted or not), and what the table of buckets denied. Before there are marks
// it is the mean since the limiter was made.
//
// # What an error is made of
//
// A table has a bounded number of slots, and clients compete for them. So a client
// may have sent units that no slot tells of: at most as many as its set of slots
// missed in the window, and what a slot that was given up had counted in the
// epoch before. Denials by the table of buckets come by the million and are
// sampled under load, each of g units by a chance of 1/g; [Doubt.Of] bounds what
// chance does. Both bounds hold whatever is sent. An epoch, [Rule.Epoch], is at
// least the time in which the fullest bucket drains; Tick ends it.
//
// [fastlimit.Config.TopTalkers]: https://pkg.go.dev/github.com/fastlimit/fastlimit#Config
package toptalkers

import (
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// Rule is a rule whose top talkers are ranked. *fastlimit.Rule is one.
// Implementations are safe for concurrent use.
type Rule interface {
	// Name is the rule's name, for people.
	Name() string
	// TopTalkers is the table of its top talkers; nil if it has none.
	TopTalkers() *sketch.TopTalkers
	// TalkerName is the text of a client's compact name.
	TalkerName(name []byte) string
	// Epoch is how long weights in the table add up before they begin anew.
	Epoch() time.Duration
}

// Talker is one of the clients that send most.
type Talker struct {
	Rule string `json:"rule"`
	Key  string `json:"key"` // as the rule writes it; "?" and a digest while the name is not known
	// Rate is what the client asked for in the last 5 to 10 s in units/s, denied
	// units included. The truth is within Rate ± Error but once in a million
	// times. Of other nodes that holds for what they have reported: counts on
	// their way, or lost there until they are sent again, are not in it.
	//
	// Error is 0 where every client has a slot and few are denied, and large for
	// 10 s after a node was met or was silent: what it has counted meanwhile
	// arrives at once, and is in no Rate.
	Rate  float64  `json:"rate"`
	Error float64  `json:"error"`
	Nodes []string `json:"nodes"` // that count the client, by name
}

// Ranking ranks the top talkers of this node's rules. Safe for concurrent use;
// now is monotonic time from any start, on one clock for all calls. The zero value
// ranks nobody: call [New].
type Ranking struct {
	node string

	mu     sync.Mutex // guards all below; held for 30 ns a slot at most
	tables []table
	ticks  uint64
	ticked time.Duration    // time of the last Mark
	marked [2]time.Duration // times of the mark before the last one, and of the last
}

// New ranks the rules that have a table of top talkers; the others are left out.
// node is the name of this node in [Talker.Nodes].
func New[R Rule](node string, rules []R) *Ranking {
	r := &Ranking{node: node}
	for _, rule := range rules {
		if rule.TopTalkers() != nil {
			r.tables = append(r.tables, newTable(rule))
		}
	}
	return r
}

// Rules is the number of rules that are ranked. Other methods number them from 0,
// in the order of New.
func (r *Ranking) Rules() int { return len(r.tables) }

// Tick sets marks and ends epochs where that is due. Call it about once a second.
// Later calls make the windows of rates longer and break nothing.
func (r *Ranking) Tick(now time.Duration) {
	r.Mark(now)
	for i := range r.tables {
		r.Rotate(i, now)
	}
}

// Mark is the first half of [Ranking.Tick], for those who read the tables before
// epochs end, as package delta does. It returns how many marks it set: mostly 0,
// otherwise 1, and 2 in the first call, so that nothing before it is in a rate.
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
	case now-r.marked[1] >= markEvery:
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
// the rule's table if that is due, and reports whether it was. An epoch is not
// shorter than the time since the mark before the last one, or Top would not know
// of clients whose slots the table gives up for silent.
func (r *Ranking) Rotate(rule int, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.tables[rule]
	if now-t.began < t.rule.Epoch() || t.began > r.marked[0] {
		return false
	}
	t.began = now
	t.talkers.Turn()
	return true
}
