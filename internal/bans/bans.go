// Package bans shows and changes bans for operators: those of rules, which the limiter begins and ends
// ([fastlimit.RuleConfig].Ban), and prefixes that operators ban by hand ([policy.Bans]).
//
// Operators' bans apply to this node and live in its memory: each ends by this machine's monotonic clock, and
// all of them with the process. A change replaces the bans that decide requests, so no request takes a lock.
// Nothing has to run for a ban to end: requests compare its end with their own time. Ended bans are dropped
// by a later change.
package bans

import (
	"cmp"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// maxPrefixes is how many prefixes operators can ban at a time, Memory the most bytes that these take
// (TestMemory).
const (
	maxPrefixes = 10_000
	Memory      = 6 << 20
)

// Node decides requests: a server.
type Node interface {
	// SetBans makes new requests be decided by these bans of operators.
	SetBans(b *policy.Bans)
	// Lists are the allow and deny lists in force; nil if there are none.
	Lists() *policy.Lists

	// Protects says why banning a prefix is probably a mistake; usually "".
	Protects(p netip.Prefix) string

	// KernelHolds reports whether the kernel drops an address's packets. KernelForgets stops it from doing so
	// for all addresses in a prefix. Neither blocks.
	KernelHolds(a netip.Addr) bool
	KernelForgets(p netip.Prefix)
}

// Config configures a [Set]. All of it is required.
type Config struct {
	Limiter *fastlimit.Limiter
	Engine  *policy.Engine // of it
	Log     *slog.Logger
}

// Set is the bans of a node. Make it with [New] and call Start; after that all methods are
// safe for concurrent use.
type Set struct {
	config Config
	node   Node
	on     atomic.Pointer[rules]

	mu   sync.Mutex // guards what follows; held while a node takes new bans
	bans *policy.Bans
	info map[netip.Prefix]info // of all in bans
	next time.Time             // no ban ends earlier
}

// info is what is known of a ban besides its prefix.
type info struct {
	until  time.Time
	times  int    // how often it was set without a pause
	reason string // why, in an operator's words
}

// New returns a set without operators' bans.
func New(c Config) *Set {
	s := &Set{config: c, info: map[netip.Prefix]info{}}
	s.on.Store(&rules{c.Limiter, c.Engine})
	s.config.Limiter, s.config.Engine = nil, nil // see on, which Follow replaces
	return s
}

// rules are the rules whose bans are shown and ended.
type rules struct {
	limiter *fastlimit.Limiter
	engine  *policy.Engine // of it
}

// Start makes a node decide by the bans. Call it once, before anything else.
func (s *Set) Start(n Node) { s.node = n }

// Follow switches the set to another limiter and its engine, unless use returns an error. use makes requests
// be decided by them and by these bans of operators.
func (s *Set) Follow(l *fastlimit.Limiter, e *policy.Engine, use func(*policy.Bans) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := use(s.bans); err != nil {
		return err
	}
	s.on.Store(&rules{l, e})
	return nil
}

// set bans a prefix, or changes how long it is banned. It returns the new ban, or the zero info if there are
// too many bans for another one.
func (s *Set) set(p netip.Prefix, life time.Duration, reason string) (is info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.dropLocked(now)
	before, again := s.info[p]
	if !again && len(s.info) >= maxPrefixes {
		return info{}
	}
	until := now.Add(life)
	s.info[p] = info{until, before.times + 1, cmp.Or(reason, before.reason)}
	if len(s.info) == 1 || until.Before(s.next) {
		s.next = until
	}
	s.bans = s.bans.With(p, until)
	s.node.SetBans(s.bans)
	if again && until.Before(before.until) {
		s.node.KernelForgets(p) // the kernel still has the old end
	}
	return s.info[p]
}

// end ends an operator's ban. It reports false if there is none that is still running.
func (s *Set) end(p netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(time.Now())
	if _, ok := s.info[p]; !ok {
		return false
	}
	delete(s.info, p)
	s.bans = s.bans.Without(p)
	s.node.SetBans(s.bans)
	return true
}

// dropLocked drops ended bans, if there may be any. The node gets the rest with the next change, if there is
// one; it works without.
func (s *Set) dropLocked(now time.Time) {
	if now.Before(s.next) {
		return
	}
	first := true
	for p, i := range s.info {
		if !i.until.After(now) {
			delete(s.info, p)
			s.bans = s.bans.Without(p)
			continue
		}
		if first || i.until.Before(s.next) {
			s.next, first = i.until, false
		}
	}
}

// Stats are counts for metrics.
type Stats struct {
	ByOperators int // prefixes that operators ban now
}

// Stats returns the counts.
func (s *Set) Stats() (st Stats) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.info {
		if i.until.After(now) {
			st.ByOperators++
		}
	}
	return st
}
