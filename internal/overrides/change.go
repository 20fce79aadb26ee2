package overrides

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/strictjson"
)

// Stores keep no change longer than this.
var _ [0]struct{} = [operator.MaxFor - registry.MaxLife]struct{}{}

// change is the body of PUT /v1/overrides.
type change struct {
	Rule      string             `json:"rule"`
	Key       texts              `json:"key"`
	Rate      string             `json:"rate"`
	Burst     uint64             `json:"burst"`
	Unlimited bool               `json:"unlimited"`
	For       *operator.Duration `json:"for"`
}

// texts is a list, or a single text.
type texts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil && len(b) > 0 && b[0] == '"' {
		*t = texts{one}
		return nil
	}
	if err := json.Unmarshal(b, (*[]string)(t)); err != nil {
		return errors.New("key: want a text, or a list of texts")
	}
	return nil
}

var wants = map[string]string{"rule": "a text", "rate": `a text such as "1000/s"`, "burst": "a whole number from 0 on", "unlimited": "true or false"}

const example = `send for example {"rule":"per-ip","key":["192.0.2.7"],"rate":"1000/s","burst":2000,"for":"1h"}`

// Put makes the change in a body: JSON such as {"rule":"per-ip","key":["192.0.2.7"],
// "rate":"1000/s","for":"1h"}. When it returns the override is in force on this node. by names the caller,
// for the log. The error has a method HTTPStatus.
func (s *Set) Put(ctx context.Context, body []byte, by string) (any, error) {
	var c change
	if err := strictjson.Decode(body, &c); err != nil {
		return nil, operator.Refuse(http.StatusBadRequest, "the body is not an override: %v; %s", operator.WrongType(err, wants), example)
	}
	life, err := c.For.Life()
	if err != nil {
		return nil, err
	}
	e, err := s.wanted(&c, by)
	if err != nil {
		return nil, err
	}
	if err = s.fits(e); errors.Is(err, errReloaded) { // again, with the rules now in force
		if e, err = s.wanted(&c, by); err != nil {
			return nil, err
		}
		err = s.fits(e)
	}
	switch {
	case errors.Is(err, errReloaded):
		return nil, operator.Refuse(http.StatusServiceUnavailable, "%v", err)
	case err != nil:
		return nil, operator.Refuse(http.StatusInsufficientStorage, "%s", operator.First(err))
	}
	err = s.change(ctx, func(ctx context.Context) error {
		return s.config.Store.Put(ctx, e.record.Name, e.record.Value, life)
	})
	if err != nil {
		return nil, err
	}
	now := s.find(e.record.Name)
	if now == nil {
		return nil, operator.Refuse(http.StatusConflict, "somebody else has just deleted it")
	}
	s.config.Log.Info("override set", slog.String("by", by), slog.String("rule", c.Rule), slog.String("key", operator.KeyText(s.shown(now).Key)),
		slog.String("limit", now.limitText()), slog.Duration("for", life), slog.Time("until", time.Now().Add(life).UTC()))
	if why := now.wrong + now.problem; why != "" {
		return nil, operator.Refuse(http.StatusInsufficientStorage, "stored, but not in force on this node: %s", why)
	}
	return s.shown(now), nil
}

// Delete ends an override now. by names the caller. The error has a method HTTPStatus.
func (s *Set) Delete(ctx context.Context, rule string, key []string, by string) error {
	// Whatever is shown can be deleted, even for a removed rule, whose keys cannot be checked.
	for _, e := range s.current() {
		if read := keytext.Read(key, len(e.value.Key)); !e.deleted() && e.value.Rule == rule &&
			(slices.Equal(e.value.Key, read) || slices.Equal(s.shown(e).Key, read)) {
			return s.remove(ctx, e.record.Name, rule, e.value.Key, by)
		}
	}
	if _, err := s.rules().rule(rule); err != nil {
		return err
	}
	name, err := s.nameOf(rule, key)
	if err != nil {
		return err
	}
	return s.remove(ctx, recordName(rule, name), rule, key, by)
}

func (s *Set) remove(ctx context.Context, name, rule string, key []string, by string) error {
	shown := operator.KeyText(s.rules().hide(rule, key))
	existed, known := false, s.find(name) != nil // where the store has lost it
	err := s.change(ctx, func(ctx context.Context) (err error) {
		existed, err = s.config.Store.Delete(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	if !existed && !known {
		return operator.Refuse(http.StatusNotFound, "no live override of rule %s for %s; change those of the file in the file", safetext.ASCII(rule, 64), shown)
	}
	s.config.Log.Info("override deleted", slog.String("by", by), slog.String("rule", rule), slog.String("key", shown))
	return nil
}

// change makes a change in the store and waits until it is in force here.
func (s *Set) change(ctx context.Context, do func(context.Context) error) error {
	select {
	case s.changing <- struct{}{}:
		defer func() { <-s.changing }()
	default:
		return operator.Refuse(http.StatusServiceUnavailable, "%d changes are in progress: try again", maxChanging)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	err := do(ctx)
	if err == nil {
		err = s.await(ctx)
	}
	switch {
	case errors.Is(err, registry.ErrFull):
		return operator.Refuse(http.StatusInsufficientStorage, "there are %d live overrides, which is the most: delete some, or write them to the file", registry.MaxRecords)
	case err != nil:
		s.errors.Add(1)
		return operator.Refuse(http.StatusServiceUnavailable, "%s did not confirm the change, which may or may not have been made: %v", s.config.Kept, err)
	}
	return nil
}

// wanted checks a change like the configuration file.
func (s *Set) wanted(c *change, by string) (*entry, error) {
	on := s.rules()
	i, err := on.rule(c.Rule)
	if err != nil {
		return nil, err
	}
	key, err := s.revealed(on, i, keytext.Read(c.Key, len(on.policy.Rules[i].Key)))
	if err != nil {
		return nil, operator.Refuse(http.StatusNotFound, "key: %s", operator.First(err))
	}
	v := value{Rule: c.Rule, Key: key, Rate: c.Rate, Burst: c.Burst, Unlimited: c.Unlimited, By: safetext.ASCII(by, 100)}
	o, err := v.override()
	if err != nil {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "rate: %s", operator.First(err))
	}
	if c.Burst > 1<<63-1 {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "burst: %d is too large", c.Burst)
	}
	name, clients, err := on.policy.Rules[i].CheckOverride(&o)
	if err != nil {
		return nil, on.unfit(i, err)
	}
	e := &entry{rule: i, on: on, value: v, limit: o.LimitOf(clients), free: o.Unlimited}
	e.record = registry.Record{Name: recordName(c.Rule, name), Value: v.encode()}
	if len(e.record.Name) > registry.MaxName || len(e.record.Value) > registry.MaxValue {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "key: too long; want at most about %d bytes", registry.MaxName)
	}
	if !e.free {
		if _, err := (*engine.Rule)(on.limiter.Rules()[i]).LiveTierBytes(e.limit); err != nil {
			return nil, on.unfit(i, err)
		}
	}
	return e, nil
}

// revealed returns a rule's key with values instead of hashes.
func (s *Set) revealed(on *rules, rule int, key []string) ([]string, error) {
	r := on.limiter.Rules()[rule]
	return on.engine.RevealKey(r, key, func(yield func(string) bool) {
		for b := range r.Bans() {
			if !yield(b.Name) {
				return
			}
		}
		if s.config.Talkers == nil {
			return
		}
		for _, name := range s.config.Talkers(r.Name()) {
			if !yield(name) {
				return
			}
		}
	})
}

// hide returns a key as people see it.
func (on *rules) hide(rule string, key []string) []string {
	r, _ := on.limiter.Rule(rule)
	return on.engine.HideKey(r, key)
}

var errReloaded = errors.New("the rules were reloaded meanwhile: try again")

// fits reports that there is no room for an override that does not exist yet.
func (s *Set) fits(e *entry) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if e.on != s.rules() {
		return errReloaded
	}
	if now := s.find(e.record.Name); now != nil && now.inForce() {
		return nil // it returns what it has; a shortage shows when it is applied
	}
	n := 0
	for _, o := range s.current() {
		if o.inForce() {
			n++
		}
	}
	try := *e
	before := s.tiers.bytes
	err := s.admit(&try, e.on.limiter.Rules()[e.rule], n)
	s.tiers.release(&try)
	s.tiers.sweep()
	s.tiers.bytes = before
	return err
}

func (on *rules) rule(name string) (int, error) {
	if i, ok := on.byName[name]; ok {
		return i, nil
	}
	var have []string
	for _, r := range on.limiter.Rules() {
		have = append(have, r.Name())
	}
	return 0, operator.NoRule(name, have)
}

// nameOf returns the name of a key's clients.
func (s *Set) nameOf(rule string, key []string) (string, error) {
	e, err := s.wanted(&change{Rule: rule, Key: key, Unlimited: true}, "")
	if err != nil {
		return "", err
	}
	_, name, _ := strings.Cut(e.record.Name, ":"+e.value.Rule+":")
	return name, nil
}

// unfit words an error of package policy or the limiter for the caller.
func (on *rules) unfit(rule int, err error) error {
	spec := &on.policy.Rules[rule]
	var key []string
	for _, p := range spec.Key {
		key = append(key, p.String())
	}
	return operator.Refuse(http.StatusUnprocessableEntity, "%s (rule %s: key %s, %v, burst %d)", operator.First(err), spec.Limit.Name, strings.Join(key, ", "),
		on.limiter.Rules()[rule].Config().Rate, on.limiter.Rules()[rule].Config().Burst)
}

func (s *Set) find(name string) *entry {
	for _, e := range s.current() {
		if e.record.Name == name && !e.deleted() {
			return e
		}
	}
	return nil
}

func (e *entry) limitText() string {
	if e.free {
		return "unlimited"
	}
	text := ""
	if e.limit.Rate != (fastlimit.Rate{}) {
		text = e.limit.Rate.String()
	}
	if e.limit.Burst != 0 {
		text += fmt.Sprintf(" burst %d", e.limit.Burst)
	}
	return strings.TrimSpace(text)
}
