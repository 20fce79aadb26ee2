package overrides

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/internal/strictjson"
	"github.com/fastlimit/fastlimit/policy"
)

// value is the text of a record. Its names are an interface between releases.
type value struct {
	Rule      string   `json:"rule"`
	Key       []string `json:"key"`
	Rate      string   `json:"rate,omitempty"`
	Burst     uint64   `json:"burst,omitempty"`
	Unlimited bool     `json:"unlimited,omitempty"`
	By        string   `json:"by,omitempty"` // who set it
}

// entry is an override, or records that it was deleted. placed and problem are set with Set.asking held
// before it is shown; nothing else changes.
type entry struct {
	record registry.Record
	until  time.Time
	value  value

	rule    int    // -1: this node has no such rule
	on      *rules // which rule indexes, while it is wanted
	limit   fastlimit.Tier
	free    bool   // not limited
	wrong   string // why it can never be in force here; "" if it can
	placed  *room
	problem string // why it is not in force now
}

func (e *entry) deleted() bool { return e.record.Value == "" }
func (e *entry) inForce() bool { return !e.deleted() && e.wrong == "" && e.problem == "" }

// errIgnored is what is wrong with a record that no node of this release has made.
var errIgnored = errors.New("not an override")

// parse reads a record. An error means that it is not an override; one that this node cannot keep has a
// problem instead.
func (s *Set) parse(r registry.Record, at time.Time) (*entry, error) {
	e := &entry{record: r, until: endOf(r, at), rule: -1}
	if e.deleted() {
		return e, nil
	}
	if len(r.Name) > registry.MaxName || len(r.Value) > registry.MaxValue || strictjson.Decode([]byte(r.Value), &e.value) != nil {
		return nil, errIgnored
	}
	on := s.rules()
	i, ok := on.byName[e.value.Rule]
	if !ok {
		e.wrong = "this node has no rule with that name"
		return e, nil
	}
	e.rule = i
	o, err := e.value.override()
	if err != nil {
		return nil, errIgnored
	}
	name, clients, err := on.policy.Rules[i].CheckOverride(&o)
	switch {
	case err != nil:
		e.wrong = operator.First(err)
	case recordName(e.value.Rule, name) != r.Name:
		return nil, errIgnored
	}
	e.free, e.limit = o.Unlimited, o.LimitOf(clients)
	return e, nil
}

// parseAgain is parse with the entry that an earlier version of the record became, or nil. Most records have
// not changed since, and reading all 10,000 for each change would keep a core busy.
func (s *Set) parseAgain(before *entry, r registry.Record, at time.Time) (*entry, error) {
	if before == nil || before.deleted() || before.record.Value != r.Value {
		return s.parse(r, at)
	}
	e := *before
	e.record, e.until = r, endOf(r, at)
	return &e, nil
}

// endOf is when a record that was read at that time ends.
func endOf(r registry.Record, at time.Time) time.Time { return at.Add(min(r.Left, registry.MaxLife)) }

// override is the value as package policy has it.
func (v *value) override() (o policy.Override, err error) {
	o = policy.Override{Key: v.Key, Burst: v.Burst, Unlimited: v.Unlimited}
	if v.Rate != "" {
		o.Rate, err = fastlimit.ParseRate(v.Rate)
	}
	return o, err
}

// recordName names the override of a rule for these clients. The length of the rule keeps names unique.
func recordName(rule, clients string) string {
	return fmt.Sprintf("%d:%s:%s", len(rule), rule, clients)
}

// take replaces the known overrides by what the store had at that time. Called with asking held.
func (s *Set) take(c *registry.Contents, at time.Time) {
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	before := map[string]*entry{}
	for _, e := range s.current() {
		before[e.record.Name] = e
	}
	ignored := c.Skipped
	var all []*entry
	for _, r := range c.Records {
		b := before[r.Name]
		e, err := s.parseAgain(b, r, at)
		if err != nil {
			ignored++
			continue
		}
		if b != nil && b.rule == e.rule && b.limit == e.limit && b.free == e.free {
			e.placed = b.placed
			delete(before, r.Name)
		}
		all = append(all, e)
	}
	for _, e := range before { // those that are gone, or have another limit
		s.tiers.release(e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(strings.Compare(a.value.Rule, b.value.Rule), strings.Compare(a.record.Name, b.record.Name))
	})
	s.mu.Lock()
	s.entries, s.ignored = all, ignored
	s.mu.Unlock()
	s.dirty = true
	if ignored == 0 {
		s.loggedBroken.Store(false)
	} else if !s.loggedBroken.Swap(true) {
		s.config.Log.Error("live overrides: records in the store are not overrides, or too large; they are ignored", slog.Int("records", ignored))
	}
}

// drop forgets ended overrides. Called with asking held.
func (s *Set) drop() {
	now := time.Now()
	all := s.current()
	if !slices.ContainsFunc(all, func(e *entry) bool { return !e.until.After(now) }) {
		return
	}
	var left []*entry
	for _, e := range all {
		if e.until.After(now) {
			left = append(left, e)
			continue
		}
		s.dirty = s.dirty || e.inForce()
		s.tiers.release(e)
	}
	s.mu.Lock()
	s.entries = left
	s.mu.Unlock()
}

// records returns what is sent to a store that has forgotten.
func (s *Set) records() (known []registry.Record) {
	for _, e := range s.current() {
		r := e.record
		if r.Left = time.Until(e.until); r.Left > 0 {
			known = append(known, r)
		}
	}
	return known
}

func (v *value) encode() string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: overrides: " + err.Error())
	}
	return string(b)
}
