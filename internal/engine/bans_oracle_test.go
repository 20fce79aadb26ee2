package engine

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// banTruth is the oracle of the bans of one client by one rule: its denials since the last
// one, all of them, and when that ends.
type banTruth struct {
	p       limit.BanPolicy
	denials []time.Duration // within Within of the latest
	most    int             // of them at a time
	end     time.Duration
	length  time.Duration
}

// newBanTruth is an oracle for a policy with its defaults, nil if that bans nobody.
func newBanTruth(p limit.BanPolicy) *banTruth {
	if p.After == 0 {
		return nil
	}
	return &banTruth{p: p}
}

// deny notes a denial by the bucket.
func (b *banTruth) deny(at time.Duration) {
	for len(b.denials) > 0 && at-b.denials[0] >= b.p.Within {
		b.denials = b.denials[1:]
	}
	b.denials = append(b.denials, at)
	b.most = max(b.most, len(b.denials))
}

// bySlots is how many denials there are in the sixteen slots that end with the latest one.
func (b *banTruth) bySlots() (n int) {
	slot := b.p.Within / 16
	for _, at := range b.denials {
		if at/slot > b.denials[len(b.denials)-1]/slot-16 {
			n++
		}
	}
	return n
}

// next is how many denials begin the next ban, and its length.
func (b *banTruth) next(at time.Duration) (needs int, length time.Duration) {
	left, halves := b.length, at-b.end
	for left >= b.p.For && halves >= 10*left {
		halves -= 10 * left
		left /= 2
	}
	if left < b.p.For {
		return b.p.After, b.p.For
	}
	return (b.p.After + 7) / 8, min(2*left, b.p.Max)
}

// banned notes a ban that ends after left. exactly says that every denial of the rule's is
// known.
func (b *banTruth) banned(at, left time.Duration, exactly bool) error {
	if at < b.end {
		if at+left != b.end {
			return fmt.Errorf("banned until %v, want %v", at+left, b.end)
		}
		return nil
	}
	b.deny(at)
	needs, length := b.next(at)
	switch {
	case b.most < needs:
		return fmt.Errorf("P1: banned for %d denials, want %d", b.most, needs)
	case left > length || exactly && left != length:
		return fmt.Errorf("banned for %v, want %v", left, length)
	}
	*b = banTruth{p: b.p, end: at + left, length: length}
	return nil
}

// judgeBans checks what a decision means for the bans of client c. done means that a ban has decided, which
// was checked.
func (w *world) judgeBans(c int, n uint64, at time.Duration, rules []int, d limit.Decision, by int) (done bool, err error) {
	banned := !d.Allowed && d.Stage == limit.StageBan
	for i, rule := range rules {
		r, b, o := w.lim.rules[rule], w.bans[c][rule], w.truth[c][rule]
		if b == nil || !r.enforced {
			continue
		}
		switch {
		case banned && i == by:
			// That begins with a denial by the bucket, unless it has begun with a request that
			// another rule's ban answered.
			if at >= b.end && len(w.lim.rules) == 1 && !o.Justified(n, r.config.Burst) {
				err = fmt.Errorf("P1: %d units denied by a ban that begins, at level %v", n, float64(o.Level)/float64(o.Per))
			} else {
				err = b.banned(at, d.RetryAfter, w.roomy && len(w.lim.rules) == 1)
			}
		case at < b.end && !banned:
			err = fmt.Errorf("it is banned until %v: %+v", b.end, d)
		case at >= b.end && !d.Allowed && (i == by || o.Justified(n, r.config.Burst)):
			b.deny(at)
			if needs, _ := b.next(at); len(w.lim.rules) == 1 && w.roomy && b.bySlots() >= needs {
				err = fmt.Errorf("not banned after %d denials", b.bySlots())
			}
		}
		if err != nil {
			return true, fmt.Errorf("client %d, rule %s, at %v: %w", c, r.config.Name, at, err)
		}
	}
	return banned, nil
}
