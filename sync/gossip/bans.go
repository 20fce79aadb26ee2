package gossip

import (
	"iter"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// Banned reports a ban that has begun here to the peers. It is for
// [fastlimit.Config.OnBan], and does not wait. Bans of shadow rules are not sent.
func (c *Cluster) Banned(b fastlimit.Ban) {
	if b.Rule.Config().Mode == fastlimit.Enforce {
		c.counts.state.Banned((*engine.Rule)(b.Rule).Identity(), delta.Ban{Digest: b.Digest, Name: b.Name, Left: b.Left, Times: b.Times}, c.counts.now())
	}
}

// Unbanned tells the peers that an operator has ended a ban here; see
// [fastlimit.Config.OnUnban]. If this node began the ban, it ends at the peers too. If
// another node reported it, it continues at that node and all others, but here only a new
// ban is applied.
func (c *Cluster) Unbanned(b fastlimit.Ban) {
	own := b.Own
	if b.Rule.Config().Mode != fastlimit.Enforce {
		own = 0
	}
	c.counts.state.Unbanned((*engine.Rule)(b.Rule).Identity(), b.Digest, own, c.counts.now())
}

// banner is a rule as delta sees it.
type banner struct {
	*fastlimit.Rule
	ended func(fastlimit.Ban) // optional
}

var _ delta.Banner = banner{}

// Identity implements delta.Banner.
func (r banner) Identity() uint64 { return (*engine.Rule)(r.Rule).Identity() }

// Running implements delta.Banner. Bans of shadow rules are not sent.
func (r banner) Running() iter.Seq[delta.Ban] {
	return func(yield func(delta.Ban) bool) {
		if r.Config().Mode != fastlimit.Enforce {
			return
		}
		for b := range r.Bans() {
			if b.Own > 0 && !yield(delta.Ban{Digest: b.Digest, Name: b.Name, Left: b.Own, Times: b.Times}) {
				return
			}
		}
	}
}

// BanFor implements delta.Banner. A rule in shadow mode does not ban clients for other
// nodes. A name whose address is not the client's is refused: operators would see, and
// unban, another client.
func (r banner) BanFor(x delta.Ban) (granted, runs time.Duration) {
	c := r.Config()
	granted = min(x.Left, c.Ban.Max)
	b := engine.Ban{Name: x.Name, Digest: x.Digest, Left: granted, Times: x.Times}
	if p, _, _ := (*engine.Rule)(r.Rule).ParseName([]byte(x.Name)); p.IsValid() && r.AddrKey(p.Addr()).Digest() != x.Digest {
		return 0, 0
	}
	if c.Mode != fastlimit.Enforce || !(*engine.Rule)(r.Rule).BanFor(&b) {
		return 0, 0
	}
	return granted, b.Left
}

// EndBan implements delta.Banner.
func (r banner) EndBan(d sketch.Digest) (ended bool) {
	was, banned := (*engine.Rule)(r.Rule).UnbanFor(d)
	if banned && r.ended != nil {
		r.ended(fastlimit.Ban{Rule: r.Rule, Key: was.Key, Name: was.Name, Digest: d, Left: was.Left, Own: was.Own, Times: was.Times})
	}
	return banned
}
