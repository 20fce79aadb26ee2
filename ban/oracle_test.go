package ban

import (
	"math/rand/v2"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// oracle knows every denial and every ban of every client, in a map. What it says of slots
// is what a table with room for everybody does; what it says of times holds for any.
type oracle struct {
	p       Policy
	slot    time.Duration
	clients map[sketch.Digest]*truth
}

type truth struct {
	denials []time.Duration // since the last ban, in any order
	end     time.Duration
	own     time.Duration // end of the last ban that the policy began
	length  time.Duration // of that
	times   int
}

func newOracle(p Policy) *oracle {
	return &oracle{p: p, slot: p.Within / slots, clients: map[sketch.Digest]*truth{}}
}

func (o *oracle) of(d sketch.Digest) *truth {
	c := o.clients[d]
	if c == nil {
		c = new(truth)
		o.clients[d] = c
	}
	return c
}

// remembered is the length that the last ban counts with: the largest L/2^k for which not
// all of 10·L, 10·L/2, … 10·L/2^k have passed, if that is at least For.
func (o *oracle) remembered(c *truth, now time.Duration) time.Duration {
	for k := range 64 {
		sum := time.Duration(0)
		for j := range k + 1 {
			sum += 10 * (c.length >> j)
		}
		switch left := c.length >> k; {
		case left < o.p.For:
			return 0
		case now-c.own < sum:
			return left
		}
	}
	return 0
}

// deny notes a denial, and bans if the table would: if so many of the slots that end with
// the latest one make a ban.
func (o *oracle) deny(d sketch.Digest, at, now time.Duration) (begun bool) {
	c := o.of(d)
	if at < c.end {
		return false
	}
	c.denials = append(c.denials, at)
	latest, n := int64(0), 0
	for _, at := range c.denials {
		latest = max(latest, int64(at/o.slot))
	}
	for _, at := range c.denials {
		if int64(at/o.slot) > latest-slots {
			n++
		}
	}
	if left := o.remembered(c, now); n >= o.needed(left) {
		o.ban(c, left, now)
		return true
	}
	return false
}

// needed is After, or the eighth of it for whom is remembered.
func (o *oracle) needed(left time.Duration) int {
	if left > 0 {
		return (o.p.After + 7) / 8
	}
	return o.p.After
}

// within is how many denials at most lie in any time of Within.
func (o *oracle) within(c *truth) (n int) {
	for _, from := range c.denials {
		k := 0
		for _, at := range c.denials {
			if at >= from && at-from < o.p.Within {
				k++
			}
		}
		n = max(n, k)
	}
	return n
}

func (o *oracle) ban(c *truth, left, now time.Duration) {
	if left == 0 {
		c.times, c.length = 0, o.p.For
	} else if c.length = 2 * left; c.length > o.p.Max {
		c.length = o.p.Max
	}
	c.times++
	c.end, c.denials = now+c.length, nil
	c.own = c.end
}

func (o *oracle) impose(d sketch.Digest, now, left time.Duration, times int) {
	c := o.of(d)
	if end := now + min(left, o.p.Max); end > c.end {
		if o.remembered(c, now) == 0 {
			c.length, c.times = 0, 0
		}
		c.end, c.times = end, max(c.times, max(1, times))
	}
}

// liftImposed ends the ban of d if the latest is an imposed one.
func (o *oracle) liftImposed(d sketch.Digest, now time.Duration) bool {
	c := o.of(d)
	if c.own == c.end || c.end <= now {
		return false
	}
	c.end = c.own
	return true
}

func (o *oracle) lift(d sketch.Digest, now time.Duration) bool {
	was := o.of(d).end > now
	delete(o.clients, d)
	return was
}

// randomDigest is that of an address, or of text.
func randomDigest(r *rand.Rand) sketch.Digest {
	if v := r.Uint64(); r.IntN(2) == 0 {
		return sketch.Digest{Pos: v, ID: v}
	}
	return sketch.Digest{Pos: r.Uint64(), ID: r.Uint64()}
}

func mustPolicy(p Policy) Policy {
	p, err := p.WithDefaults()
	if err != nil {
		panic(err)
	}
	return p
}
