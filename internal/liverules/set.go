// Package liverules keeps operators' changes to rules while a node runs: a mode, a rate or a burst that
// overrides the configuration file for a while. A rule reverts automatically.
//
// A change works like a reload with other rules: the state of clients stays, and a looser limit or shadow
// mode takes effect from the next request on. It applies to this node, in its memory, or to all nodes of a
// cluster ([Set.Join]).
package liverules

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/policy"
)

// Config configures a [Set]. Accept is optional.
type Config struct {
	// Changing is held while rules are replaced, here or by a reload.
	Changing sync.Locker
	// Apply makes requests be decided by other rules from then on, or with an error by the previous ones. It
	// is called with Changing held.
	Apply func([]policy.RuleSpec) error
	Log   *slog.Logger

	Accept bool // apply other nodes' changes for all nodes here
}

// retry is the pause after a rule could not be reverted.
const retry = 10 * time.Second

// Set is the live rules of a node. Make it with [New]; all methods are safe for concurrent use.
type Set struct {
	config Config
	kick   chan struct{} // another end may be the next

	mu     sync.Mutex // guards what follows, which is replaced only with Changing held; held briefly
	file   []policy.RuleSpec
	live   []live            // in the order they were made
	shared map[string]shared // by rule
	others Peers             // nil: there are none
}

// live is an override of a rule in the file.
type live struct {
	change
	by    string
	until time.Time // with a monotonic reading

	restored bool // by Restore, and not changed since
}

// New returns a set without changes to the rules of a file.
func New(c Config, file []policy.RuleSpec) *Set {
	return &Set{config: c, file: file, kick: make(chan struct{}, 1), shared: map[string]shared{}}
}

// Join connects the set to those of the other nodes. Call it before Start, if there are any.
func (s *Set) Join(p Peers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = p
}

func (s *Set) peers() Peers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others
}

// Start reverts rules in time, and follows other nodes, until ctx ends.
func (s *Set) Start(ctx context.Context) (stopped <-chan struct{}) {
	end := make(chan struct{})
	var loops sync.WaitGroup
	if s.peers() != nil && s.config.Accept {
		loops.Go(func() { s.follow(ctx) })
	}
	go func() {
		defer close(end)
		defer loops.Wait()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.kick:
			case <-time.After(s.untilNext()):
				if s.end(time.Now()) != nil {
					select {
					case <-ctx.Done():
						return
					case <-time.After(retry):
					}
				}
			}
		}
	}()
	return end
}

// untilNext is the time until the next rule reverts.
func (s *Set) untilNext() time.Duration {
	_, all := s.current()
	next := time.Hour // a spurious step
	for i := range all {
		next = min(next, time.Until(all[i].until))
	}
	return max(0, next)
}

// end reverts the rules whose time is up.
func (s *Set) end(now time.Time) error {
	s.config.Changing.Lock()
	defer s.config.Changing.Unlock()
	file, all := s.current()
	rest := slices.DeleteFunc(slices.Clone(all), func(l live) bool { return !l.until.After(now) })
	if len(rest) == len(all) {
		return nil
	}
	if err := s.config.Apply(changed(file, rest)); err != nil {
		s.config.Log.Error("a rule cannot be restored to what the file says; trying again", slog.Any("error", err))
		return err
	}
	s.set(file, rest)
	for i := range all {
		if l := &all[i]; !l.until.After(now) {
			s.config.Log.Info("live rule ended", slog.String("cause", "its time"), slog.String("rule", l.Rule), slog.String("was", l.text()))
		}
	}
	return nil
}

// Follow switches the set to the rules of another file. use makes requests be decided by them with what is
// live; if it returns an error nothing has changed. For removed rules nothing is live any more. Call it with
// Changing held.
func (s *Set) Follow(file []policy.RuleSpec, use func([]policy.RuleSpec) error) error {
	_, all := s.current()
	rest := slices.DeleteFunc(slices.Clone(all), func(l live) bool { return find(file, l.Rule) < 0 })
	more := s.waiting(file, rest)
	err := use(changed(file, append(slices.Clip(rest), more...)))
	if err != nil && len(more) > 0 { // a reload does not fail because of another node
		more = nil
		err = use(changed(file, rest))
	}
	if err != nil {
		return err
	}
	s.set(file, append(rest, more...))
	s.done(more)
	return nil
}

// changed returns the rules of a file with what is live.
func changed(file []policy.RuleSpec, all []live) []policy.RuleSpec {
	rules := slices.Clone(file)
	for i := range all {
		if at := find(rules, all[i].Rule); at >= 0 {
			all[i].on(&rules[at].Limit)
		}
	}
	return rules
}

func find(rules []policy.RuleSpec, name string) int {
	return slices.IndexFunc(rules, func(r policy.RuleSpec) bool { return r.Limit.Name == name })
}

func (s *Set) current() (file []policy.RuleSpec, all []live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file, s.live
}

// set must be called with Changing held.
func (s *Set) set(file []policy.RuleSpec, all []live) {
	s.mu.Lock()
	s.file, s.live = file, all
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
