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
	// Rule is the rule whose buckets denied the client, never a tier or a rule from
	// [Rule.AtRate]. A ban by a rule in shadow mode changes nothing.
	Rule *Rule
	// Key is the client as text, as [Rule.AppendKey] writes it. Name is the form that Key
	// is written from and that nodes exchange. A long one is cut.
	Key, Name string
	// Digest is the client as the rule knows it; see [Key.Digest].
	Digest sketch.Digest
	// Left is the time until the ban ends.
	Left time.Duration
	// Own is the part of Left that is due to this rule's own denials. It is shorter than
	// Left, possibly 0, if another node has reported a longer ban.
	Own time.Duration
	// Times is the number of bans that are remembered for the client, including this one.
	Times int
}

func newBan(b *engine.Ban) Ban {
	return Ban{(*Rule)(b.Rule), b.Key, b.Name, b.Digest, b.Left, b.Own, b.Times}
}

// Remote reports whether the ban is known only from another node.
func (b *Ban) Remote() bool { return b.Own == 0 }

// Prefix returns the banned address, or the prefix by which the rule groups addresses. It
// returns the zero Prefix and false if the rule's keys are not addresses.
func (b *Ban) Prefix() (netip.Prefix, bool) {
	p, _, _ := b.Rule.engine().ParseName([]byte(b.Name))
	return p, p.IsValid()
}

// Bans returns all bans in force, in no particular order. It holds locks only briefly, so
// bans that begin during the call may or may not be included.
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

// Unban ends the ban of key, if there is one, and forgets all earlier bans and the denials
// that would have counted towards the next. It reports whether the client was banned. It
// leaves the client's bucket alone; see [Rule.Reset].
func (r *Rule) Unban(key Key) bool { return r.engine().Unban(engine.Key(key)) }
