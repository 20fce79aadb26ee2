// Package inproc measures limiters by calling them, each in a process of its
// own: how fast they decide, how right they are, and how much memory they take.
package inproc

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/reference"
	"github.com/fastlimit/fastlimit/limit"
)

// Limiter is what is measured. It must be safe for concurrent use. It may
// implement io.Closer, [Escalator], [Asker] and [Failer].
type Limiter interface {
	// Allow takes one request of addr at now, the time since the start. A
	// limiter that reads the clock itself ignores now.
	Allow(addr netip.Addr, now time.Duration) bool
}

// Escalator is a limiter that checks only some requests exactly.
type Escalator interface {
	// Escalated is the number of requests that were.
	Escalated() uint64
}

// Asker is a limiter that asks Redis.
type Asker interface {
	// Asked is the number of operations so far.
	Asked() uint64
}

// Failer is a limiter whose decisions may fail. If one did, the error is shown
// beside the figures.
type Failer interface {
	// Err is the first error, nil if there was none.
	Err() error
}

// Contender makes limiters of one kind.
type Contender struct {
	Name  string
	Setup string // how it is configured, and what it counts as a client
	// OwnClock says that it reads the clock itself. It is measured in real time,
	// and its figures include the reading.
	OwnClock bool
	// Remote says that a decision waits for another process. Limiters that share a
	// stream of requests with it would fall behind.
	Remote bool
	New    func(oracle.Rule) (Limiter, error)
}

// Fastlimit is this project's limiter with its defaults.
func Fastlimit() Contender {
	return Contender{
		Name:  "fastlimit",
		Setup: fmt.Sprintf("defaults: memory up to %d MiB, escalate_at 0.5; clients are IPv4 addresses and IPv6 /64", limit.DefaultMemory>>20),
		New:   func(r oracle.Rule) (Limiter, error) { return newFast(defaultRule(r), new(fastlimit.ManualClock)) },
	}
}

// FastlimitClock is [Fastlimit] reading its own clock for every decision, to
// be compared with limiters that do.
func FastlimitClock() Contender {
	c := Fastlimit()
	c.Name, c.OwnClock = "fastlimit, own clock", true
	c.New = func(r oracle.Rule) (Limiter, error) {
		f, err := newFast(defaultRule(r), nil)
		return ownClock{f}, err
	}
	return c
}

// Reference is the frozen reference: what most people write first.
func Reference() Contender {
	return Contender{
		Name:  "x/time map",
		Setup: "golang.org/x/time/rate, one limiter per netip.Addr in 256 locked maps, never forgotten",
		New: func(r oracle.Rule) (Limiter, error) {
			return referenceLimiter{reference.New(r.Rate.PerSecond(), int(r.Burst))}, nil
		},
	}
}

// DefaultContenders are those that the main module links.
func DefaultContenders() []Contender { return []Contender{Fastlimit(), Reference()} }

type fast struct {
	lim   *fastlimit.Limiter
	rule  *fastlimit.Rule
	clock *fastlimit.ManualClock // nil: the machine's
}

// defaultRule is the rule with everything else left as it is by default.
func defaultRule(r oracle.Rule) fastlimit.RuleConfig {
	return fastlimit.RuleConfig{Rate: r.Rate, Burst: r.Burst}
}

func newFast(rule fastlimit.RuleConfig, clock *fastlimit.ManualClock) (*fast, error) {
	rule.Name = "bench"
	lim, err := fastlimit.New(fastlimit.Config{
		Rules:  []fastlimit.RuleConfig{rule},
		Secret: [32]byte{1}, // the same collisions in every run
		Clock:  clock,
	})
	if err != nil {
		return nil, err
	}
	r, _ := lim.Rule(rule.Name)
	return &fast{lim, r, clock}, nil
}

func (f *fast) Allow(addr netip.Addr, now time.Duration) bool {
	f.clock.Set(now)
	return f.rule.Take(context.Background(), f.rule.AddrKey(addr), 1).Allowed
}

func (f *fast) Escalated() uint64 {
	s := f.rule.Stats()
	return s.Allowed[fastlimit.StageExact] + s.Denied[fastlimit.StageExact]
}

type ownClock struct{ *fast }

func (f ownClock) Allow(addr netip.Addr, _ time.Duration) bool {
	return f.rule.Take(context.Background(), f.rule.AddrKey(addr), 1).Allowed
}

// start is the moment that peers with a wall clock are told to begin at.
var start = time.Unix(1_000_000_000, 0)

// Wall is the wall-clock time that stands for now.
func Wall(now time.Duration) time.Time { return start.Add(now) }

type referenceLimiter struct{ *reference.Limiter }

func (l referenceLimiter) Allow(addr netip.Addr, now time.Duration) bool {
	return l.AllowN(addr, Wall(now), 1)
}
