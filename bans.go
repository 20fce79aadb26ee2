package fastlimit

import (
	"iter"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
)

// Ban is a ban of one client by one rule.
type Ban struct {
	// Rule is the rule whose buckets denied the client. A ban by a rule in shadow mode
	// changes nothing. It is never a tier, nor of [Rule.AtRate].
	Rule *Rule
	// Key is the client as text, as [Rule.AppendKey] writes it. Name is what it is
	// written from, and what other nodes understand. A long one is cut.
	Key, Name string
	// Digest is the client as the rule knows it: see [Key.Digest].
	Digest sketch.Digest
	// Left is how long the ban still lasts.
	Left time.Duration
	// Own is how long it lasts by this rule's denials: shorter than Left, possibly 0, if another
	// node has reported a longer one.
	Own time.Duration
	// Times is how many bans the client has had as far as they are remembered, this one
	// included.
	Times int
}

func newBan(b *engine.Ban) Ban {
	return Ban{(*Rule)(b.Rule), b.Key, b.Name, b.Digest, b.Left, b.Own, b.Times}
}

// Told reports that only another node has told of it.
func (b *Ban) Told() bool { return b.Own == 0 }

// Prefix is the address that is banned, or the prefix by which the rule groups
// addresses. It is the zero Prefix if the rule's keys are none.
func (b *Ban) Prefix() (netip.Prefix, bool) { return b.Rule.engine().TalkerPrefix([]byte(b.Name)) }

// Bans returns all bans that run now, in no order. It takes locks for a short time only,
// so bans that begin meanwhile may or may not be among them.
func (r *Rule) Bans() iter.Seq[Ban] {
	bans := r.engine().Bans()
	return func(yield func(Ban) bool) {
		for b := range bans {
			if !yield(newBan(&b)) {
				return
			}
		}
	}
}

// Unban ends the ban of key, if there is one, and forgets all earlier ones and what would
// have counted towards the next. It reports whether the client was banned. Its bucket
// stays: see [Rule.Reset].
func (r *Rule) Unban(key Key) bool { return r.engine().Unban(engine.Key(key)) }
