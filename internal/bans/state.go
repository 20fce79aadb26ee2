package bans

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// Saved is an operator's ban, for the next process.
type Saved struct {
	Prefix netip.Prefix
	Left   time.Duration // when it was saved
	Times  int
	Reason string `json:",omitempty"`
}

// Save returns the running bans of operators.
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

// Restore starts bans that were saved age ago. A later ban of the same prefix stays. It returns how many now
// run because of it; bans that no operator could set are left out. Call it after Start.
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
