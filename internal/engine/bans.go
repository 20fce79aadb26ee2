package engine

import (
	"iter"
	"time"

	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/internal/exact"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Ban is a ban of one client by one rule. Package fastlimit documents the fields.
type Ban struct {
	Rule      *Rule
	Key, Name string
	Digest    sketch.Digest
	Left, Own time.Duration
	Times     int
}

// Bans is fastlimit.Rule.Bans.
func (r *Rule) Bans() iter.Seq[Ban] {
	r.checkMade()
	return func(yield func(Ban) bool) {
		if r.bans == nil {
			return
		}
		for b := range r.bans.All(r.time()) {
			if !yield(r.banOf(&b)) {
				return
			}
		}
	}
}

// Unban is fastlimit.Rule.Unban.
func (r *Rule) Unban(key Key) bool {
	r.check(key)
	return r.UnbanDigest(key.digest())
}

// UnbanDigest is [Rule.Unban] for a client of [Rule.Bans].
func (r *Rule) UnbanDigest(d sketch.Digest) bool {
	r.checkMade()
	if r.bans == nil {
		return false
	}
	b, banned := r.bans.Lift(d, r.time())
	if on := r.limiter.onUnban; banned && on != nil {
		on(r.banOf(&b))
	}
	return banned
}

func (r *Rule) banOf(b *ban.Ban) Ban {
	return Ban{Rule: r.owner(), Key: r.nameText([]byte(b.Name)), Name: b.Name, Digest: b.Digest, Left: b.Left, Own: b.Own, Times: b.Times}
}

// banned denies a request whose client is banned. It only reads.
func (r *Rule) banned(d sketch.Digest, now time.Duration) (v limit.Decision, banned bool) {
	if r.bans == nil || r.bans.Quiet(now) {
		return limit.Decision{}, false
	}
	end, ok := r.bans.Banned(d, now)
	if !ok {
		return limit.Decision{}, false
	}
	// A reading that another one has overtaken does not convict; see clock.Clock.
	late := r.buckets.Clock.Late(now)
	if late >= end {
		return limit.Decision{}, false
	}
	return banDecision(end - late), true
}

func banDecision(left time.Duration) limit.Decision {
	return limit.Decision{Outcome: limit.Outcome{Stage: limit.StageBan}, RetryAfter: left}
}

// checkBan denies a client that is banned.
func (r *Rule) checkBan(d sketch.Digest, n uint64, now time.Duration, at stripe) (v limit.Decision, denied bool) {
	if v, denied = r.banned(d, now); denied {
		r.recordDenial(d, n, limit.StageBan, at)
	}
	return v, denied
}

// convictExact is convict for a denial by the exact tier. It ignores denials by the failure policy
// and of requests whose caller hung up before the bucket was asked.
func (r *Rule) convictExact(key Key, v limit.Decision, now time.Duration) limit.Decision {
	if v.Stage == limit.StageFallback || v == exact.Abandoned() {
		return v
	}
	return r.convict(key, v, now)
}

// convict counts the denial v of a request that was read at now towards a ban. If it
// begins a ban, or one has begun meanwhile, the ban decides instead.
func (r *Rule) convict(key Key, v limit.Decision, now time.Duration) limit.Decision {
	if !r.bans.Deny(&r.config.Ban, key.digest(), now) {
		return v
	}
	return r.beginBan(key, v, now)
}

// beginBan begins a ban that is due, as of the latest clock reading. This slow path is the only one that
// stores the text of a key.
func (r *Rule) beginBan(key Key, v limit.Decision, now time.Duration) limit.Decision {
	var name [ban.NameBytes]byte
	b, running, begun := r.bans.Begin(&r.config.Ban, key.digest(), r.buckets.Clock.Late(now), r.appendName(name[:0], key))
	if !running {
		return v
	}
	if begun {
		r.owner().banAtSuccessors(&b, r.buckets.Clock.Late(now))
	}
	if on := r.limiter.onBan; begun && on != nil {
		on(r.banOf(&b))
	}
	return banDecision(b.Left)
}

// setBans gives the rule its table of bans. It shares that of old if sizes and times are the same.
func (r *Rule) setBans(rp *limit.RulePlan, old *Rule) {
	p := &r.config.Ban
	if r.direct = r.buckets.Plain && !p.Enabled(); !p.Enabled() {
		return
	}
	if old != nil && old.keepsBans(r) && old.plan().Bans == rp.Bans && old.config.Ban.Within == p.Within && old.config.Ban.Max <= p.Max {
		r.bans = old.bans
		return
	}
	r.bans = ban.New(rp.Bans, p.Within)
}

// keepsBans reports whether next takes over the bans of r. It does not if r was in shadow mode and next is
// not, because those clients were never denied.
func (r *Rule) keepsBans(next *Rule) bool { return r.bans != nil && (r.enforced || !next.enforced) }
