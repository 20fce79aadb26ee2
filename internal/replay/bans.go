package replay

import (
	"time"

	"github.com/fastlimit/fastlimit"
)

// banBook is the oracle's record of one client's bans: its denials since the last one, and how long that was.
// It trusts the limiter on when a ban begins, since that counts in slots, and checks it against the times of
// all denials: a ban with fewer than the policy requires within its time is false, and so is one that lasts
// too long.
//
// A denial by another rule counts here if this rule's bucket had no room either, as all rules' tables are
// asked. So there may be more denials here than in the limiter, never fewer.
type banBook struct {
	times  []time.Duration // of denials since the last ban, not older than Within
	most   int             // the most of them within Within
	end    time.Duration   // of the last ban
	length time.Duration
}

// denied records a denial by a bucket.
func (b *banBook) denied(p *fastlimit.BanPolicy, now time.Duration) {
	if now < b.end {
		return
	}
	old := 0
	for old < len(b.times) && now-b.times[old] >= p.Within {
		old++
	}
	b.times = append(b.times[old:], now)
	b.most = max(b.most, len(b.times))
}

// banned records a denial by a ban that ends after left, and reports whether it is right. The denial that
// begins a ban is also one by a bucket.
func (b *banBook) banned(p *fastlimit.BanPolicy, now, left time.Duration) bool {
	if now < b.end {
		return now+left <= b.end
	}
	b.denied(p, now)
	before := b.remembered(p, now)
	needs, length := p.After, p.For
	if before > 0 {
		needs, length = (p.After+7)/8, min(2*before, p.Max)
	}
	right := b.most >= needs && left <= length
	*b = banBook{end: now + left, length: length}
	return right
}

// remembered is the length that the last ban counts with: halved each time that ten times it has passed since
// its end, and 0 below For.
func (b *banBook) remembered(p *fastlimit.BanPolicy, now time.Duration) time.Duration {
	length := b.length
	for since := now - b.end; length >= p.For && since >= 10*length; length /= 2 {
		since -= 10 * length
	}
	if length < p.For {
		return 0
	}
	return length
}
