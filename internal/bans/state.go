package bans

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// Saved is a ban of an operator's, for the next process.
type Saved struct {
	Prefix netip.Prefix
	Left   time.Duration // when it was saved
	Times  int
	Reason string `json:",omitempty"`
}

// Save returns the bans that operators have set and that run.
func (s *Set) Save() (all []Saved) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, i := range s.info {
		if left := i.until.Sub(now); left > 0 {
			all = append(all, Saved{p, left, i.times, i.reason})
		}
	}
	return all
}

// Restore has bans run that were saved that long ago. One of the prefix that ends later stays
// as it is. It returns how many there are now that run because of it; what no operator could
// set is left out. Call it after Start.
func (s *Set) Restore(all []Saved, age time.Duration) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.dropLocked(now)
	for _, b := range all {
		until := now.Add(b.Left - age)
		before, again := s.info[b.Prefix]
		if p, err := policy.ParseBan(b.Prefix.String()); err != nil || p != b.Prefix || b.Times < 1 ||
			!until.After(now) || again && !until.After(before.until) || !again && len(s.info) >= maxPrefixes {
			continue
		}
		s.info[b.Prefix] = info{until, max(b.Times, before.times), cmp.Or(b.Reason, before.reason)}
		if len(s.info) == 1 || until.Before(s.next) {
			s.next = until
		}
		s.bans = s.bans.With(b.Prefix, until)
		n++
	}
	if n > 0 {
		s.node.SetBans(s.bans)
	}
	return n
}
