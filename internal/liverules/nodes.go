package liverules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/policy"
)

// Nodes exchange what is to be in force on all of them. Each keeps, for a rule, the last change that it
// knows, and sends it to any node that asks. Changes have versions, so all nodes agree on the last one, in
// whatever order they learn of them. A node only pulls: an answer is fresh, while a pushed message might be
// replayed years later. A node that makes a change asks the others to pull it; each also pulls from one of
// the others now and then, and from those that come up, so that a node that was away catches up.

// Peers are the other nodes.
type Peers interface {
	Node() string    // the name of this one
	Peers() []string // those that are up
	Away() []string  // those that were up, and have not left
	// Ask returns a peer's answer to a question, from its [Set.Answer].
	Ask(ctx context.Context, peer string, question []byte) ([]byte, error)
}

const (
	lookEvery  = time.Second      // checks whether nodes have come up
	askEvery   = 10 * time.Second // at least one of them
	askTimeout = 5 * time.Second
	// shareTimeout is within the time that the command line waits for an answer.
	shareTimeout = 3 * time.Second
	// askedAtOnce bounds the peers asked at a time, as all others may ask the same one.
	askedAtOnce = 2
	mostShared  = 256       // rules
	mostAhead   = time.Hour // how far another node's clock may be ahead
)

// version orders changes of all nodes by time, or just after those already known.
type version struct {
	At   int64  // ms since 1970
	Node string // that made the change
}

func (v version) compare(o version) int {
	return cmp.Or(cmp.Compare(v.At, o.At), strings.Compare(v.Node, o.Node))
}

// shared is the last change of a rule for all nodes.
type shared struct {
	live
	version version
	undone  bool   // the rule is to be as in the file
	problem string // why it is not in force here; "": it is, or has been
}

// record is a change as sent to nodes and in the state file.
type record struct {
	Saved
	Version version
	Undone  bool `json:",omitempty"`
}

func (c *shared) record() record {
	return record{Saved{c.Rule, c.Mode, c.Rate, c.Burst, c.by, time.Until(c.until)}, c.version, c.undone}
}

// read reads a record from another node, which may contain anything.
func (r *record) read(age time.Duration) (c shared, ok bool) {
	c = shared{version: r.Version, undone: r.Undone}
	c.change = change{r.Rule, r.Mode, r.Rate, r.Burst}
	c.by, c.until = safetext.Clip(r.By, 128), time.Now().Add(min(r.Left, operator.MaxFor)-age)
	return c, r.Left > age && r.Rule != "" && (c.undone || c.check() == nil)
}

// NodeAnswer is a node's result for a change on all nodes.
type NodeAnswer struct {
	Node    string `json:"node"`
	Follows bool   `json:"follows"`
	Problem string `json:"problem,omitempty"` // why not, or not yet
}

// question is what nodes ask each other.
type question struct {
	Ask bool `json:"ask"` // the receiver is to ask back
}

type answer struct {
	Rules   []record `json:"rules,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// Answer answers a question of another node.
func (s *Set) Answer(peer string, b []byte) []byte {
	var q question
	var a answer
	switch err := json.Unmarshal(b, &q); {
	case err != nil:
		a.Problem = "its version does not support this"
	case !q.Ask:
		a.Rules = s.records()
	case !s.config.Accept:
		a.Problem = "it does not accept changes of other nodes: set cluster.accept_rules there"
	case s.peers() == nil:
		a.Problem = "it has not started yet"
	default:
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		if err := s.ask(ctx, peer); err != nil {
			a.Problem = err.Error()
		}
	}
	b, _ = json.Marshal(a) // of texts and numbers
	return b
}

func (s *Set) records() (all []record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.shared {
		if time.Until(c.until) > 0 {
			all = append(all, c.record())
		}
	}
	return all
}

// ask asks a peer, and applies what is newer there than here. The error is about what could not be applied.
func (s *Set) ask(ctx context.Context, peer string) error {
	b, err := s.peers().Ask(ctx, peer, []byte("{}"))
	if err != nil {
		return err
	}
	var a answer
	if err = json.Unmarshal(b, &a); err != nil {
		return errors.New("its answer is not understood")
	}
	return s.merge(a.Rules, 0)
}

// merge takes records, age old, that are newer than what is known.
func (s *Set) merge(records []record, age time.Duration) error {
	s.config.Changing.Lock()
	defer s.config.Changing.Unlock()
	var errs []error
	for i := range records {
		c, ok := records[i].read(age)
		if ok && time.UnixMilli(c.version.At).After(time.Now().Add(mostAhead)) { // it would stay the last one
			errs = append(errs, fmt.Errorf("the clock of node %s is ahead by more than %v", safetext.Clip(c.version.Node, 64), mostAhead))
			continue
		}
		if known := s.known(c.Rule); !ok || c.version.compare(known) <= 0 || known == (version{}) && s.sharedCount() >= mostShared {
			continue
		}
		if err := s.take(&c); err != nil {
			c.problem = err.Error()
			errs = append(errs, err)
		}
		s.keep(&c)
	}
	return errors.Join(errs...)
}

// take applies a change that another node made. Called with Changing held.
func (s *Set) take(c *shared) error {
	file, all := s.current()
	if find(file, c.Rule) < 0 {
		return s.noRule(c.Rule)
	}
	rest := without(all, c.Rule)
	if !c.undone {
		rest = append(rest, c.live)
	} else if len(rest) == len(all) {
		return nil
	}
	if err := s.config.Apply(changed(file, rest)); err != nil {
		return refused(c.Rule, err)
	}
	s.set(file, rest)
	by := slog.String("by", c.by+" at node "+c.version.Node)
	if c.undone {
		s.config.Log.Info("live rule ended", by, slog.String("rule", c.Rule))
	} else {
		s.config.Log.Info("live rule set", by, slog.String("rule", c.Rule), slog.String("change", c.text()), slog.Time("until", c.until.UTC()))
	}
	return nil
}

func (s *Set) known(rule string) version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared[rule].version
}

func (s *Set) sharedCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shared)
}

// keep remembers a change until it would have ended, and forgets those that have.
func (s *Set) keep(c *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rule, old := range s.shared {
		if time.Until(old.until) <= 0 {
			delete(s.shared, rule)
		}
	}
	s.shared[c.Rule] = *c
}

// waiting returns the changes for all nodes that could not be applied here, of rules in the file.
func (s *Set) waiting(file []policy.RuleSpec, all []live) (more []live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rule, c := range s.shared {
		if c.problem != "" && !c.undone && time.Until(c.until) > 0 && find(file, rule) >= 0 && len(without(all, rule)) == len(all) {
			more = append(more, c.live)
		}
	}
	return more
}

// done marks changes that could not be applied before and now are.
func (s *Set) done(all []live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range all {
		c := s.shared[all[i].Rule]
		c.problem = ""
		s.shared[all[i].Rule] = c
	}
}

// share makes a change that is in force here one for all nodes. Called with Changing held.
func (s *Set) share(l *live, undone bool) {
	known := s.known(l.Rule)
	s.keep(&shared{live: *l, undone: undone, version: version{max(time.Now().UnixMilli(), known.At+1), s.peers().Node()}})
}

// askAll has all nodes ask for what was shared, and returns the results. The change has been made already, so
// it continues if the caller has gone.
func (s *Set) askAll(ctx context.Context) []NodeAnswer {
	names := s.peers().Peers()
	answers := make([]NodeAnswer, len(names))
	for _, name := range s.peers().Away() {
		answers = append(answers, NodeAnswer{Node: name, Problem: "it is away"})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shareTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			answers[i] = NodeAnswer{Node: name}
			b, err := s.peers().Ask(ctx, name, []byte(`{"ask":true}`))
			var a answer
			switch {
			case err != nil:
				answers[i].Problem = err.Error()
			case json.Unmarshal(b, &a) != nil:
				answers[i].Problem = "its answer is not understood"
			default:
				answers[i].Follows, answers[i].Problem = a.Problem == "", safetext.Clip(a.Problem, 500)
			}
		})
	}
	asking.Wait()
	slices.SortFunc(answers, func(a, b NodeAnswer) int { return strings.Compare(a.Node, b.Node) })
	return answers
}

// follow asks peers until ctx ends: those that have come up, and one of all now and then.
func (s *Set) follow(ctx context.Context) {
	var up []string
	asked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		now := s.peers().Peers()
		fresh := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(up, name) })
		if up = now; len(fresh) == 0 && time.Since(asked) >= askEvery {
			fresh = slices.Clone(up)
		}
		rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
		for _, name := range fresh[:min(len(fresh), askedAtOnce)] {
			asked = time.Now()
			one, cancel := context.WithTimeout(ctx, askTimeout)
			err := s.ask(one, name)
			cancel()
			if err != nil {
				s.config.Log.Debug("live rules of another node", slog.String("peer", name), slog.Any("error", err))
			}
		}
	}
}
