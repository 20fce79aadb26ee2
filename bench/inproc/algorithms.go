package inproc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bucket"
)

// Algorithms is fastlimit with each algorithm that a rule can have, and again with
// strict rules, which check every request exactly. It reads its own clock, as a service does
// and as most peers do.
func Algorithms() (all []Contender) {
	for a := range bucket.NumAlgorithms {
		all = append(all, algorithm(a, false), algorithm(a, true))
	}
	return all
}

func algorithm(a fastlimit.Algorithm, strict bool) Contender {
	c := Contender{
		Name:  "fastlimit, " + a.String(),
		Setup: fmt.Sprintf("defaults, algorithm %v%s; reads the clock itself", a, windowSetup(a)), OwnClock: true,
		New: func(r oracle.Rule) (Limiter, error) {
			rule := AlgorithmRule(a, r)
			rule.Strict = strict
			f, err := newFast(rule, nil)
			if err != nil {
				return nil, err
			}
			if t := TurnsFor(rule, r); t != nil {
				return inTurns{ownClock{f}, t}, nil
			}
			return ownClock{f}, nil
		},
	}
	if strict {
		c.Name += ", strict"
		c.Setup += "; every request is checked exactly"
	}
	return c
}

// AlgorithmRule is the rule for an algorithm. The nearest that a window or log has to a
// rate and a burst is the burst in each period of B/r, as for peers that have windows. What
// slides cannot count to a limit that is out of reach: there it has the most that it can.
func AlgorithmRule(a fastlimit.Algorithm, r oracle.Rule) fastlimit.RuleConfig {
	c := fastlimit.RuleConfig{Algorithm: a, Rate: r.Rate, Burst: r.Burst}
	if a.Periodic() {
		c.Rate, c.Burst = fastlimit.Rate{N: r.Burst, Per: r.Window()}, 0
	}
	switch {
	case a == fastlimit.SlidingWindow && c.Rate.N > mostOfWindow:
		c.Rate = fastlimit.Rate{N: mostOfWindow, Per: bucket.MaxPeriod}
	case a == fastlimit.SlidingLog && c.Rate.N > bucket.MaxPortableLog:
		c.Rate = fastlimit.Rate{N: bucket.MaxPortableLog, Per: time.Second}
	}
	return c
}

// mostOfWindow is what a sliding window of the longest period counts to, which no
// measurement does.
const mostOfWindow = 1<<26 - 1

// Turns spread the requests of one client over as many as it takes for each to stay below
// its limit, one after the other. It is for logs, which fill up in less than a millisecond
// whatever their limit. Safe for concurrent use.
type Turns struct {
	each  uint64 // requests of a client
	asked atomic.Uint64
}

// TurnsFor returns the turns for a rule in place of r, nil where the rule says what r says.
func TurnsFor(rule fastlimit.RuleConfig, r oracle.Rule) *Turns {
	if rule.Algorithm != fastlimit.SlidingLog || rule.Rate.N >= r.Burst {
		return nil
	}
	return &Turns{each: rule.Rate.N / 8} // half of what makes a suspect
}

// Of returns whose turn it is, in place of addr.
func (t *Turns) Of(addr netip.Addr) netip.Addr {
	b := addr.As4()
	b[1], b[2], b[3] = 0, 0, 0
	n := binary.BigEndian.Uint32(b[:]) | uint32((t.asked.Add(1)-1)/t.each)&(1<<24-1)
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// inTurns is a limiter whose client has successors.
type inTurns struct {
	ownClock
	turns *Turns
}

func (l inTurns) Allow(addr netip.Addr, now time.Duration) bool {
	return l.ownClock.Allow(l.turns.Of(addr), now)
}

func windowSetup(a fastlimit.Algorithm) string {
	switch {
	case a == fastlimit.SlidingLog:
		return ", B requests per period of B/r; where none may be denied, 4096 a second and another client every 512 requests"
	case a.Periodic():
		return ", B requests per window of B/r"
	}
	return ""
}
