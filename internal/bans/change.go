package bans

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/keytext"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/internal/safetext"
	"github.com/fastlimit/fastlimit/internal/strictjson"
	"github.com/fastlimit/fastlimit/policy"
)

// change is the body of POST /v1/bans.
type change struct {
	Key    string             `json:"key"`
	For    *operator.Duration `json:"for"`
	Reason string             `json:"reason"`
	Force  bool               `json:"force"` // even if the node protects the prefix
}

// maxReason bounds the reason that is kept with a ban, in bytes.
const maxReason = 200

const example = `send for example {"key":"192.0.2.0/24","for":"1h"}`

// maxAllowed is how many entries of the allow list an answer names.
const maxAllowed = 20

// Done is the answer to a ban. Its names are part of the contract.
type Done struct {
	Shown

	// Allowed are the first entries of the allow list within the prefix, whose clients stay allowed, and
	// AllowedEntries counts them all.
	Allowed        []netip.Prefix `json:"still_allowed,omitempty"`
	AllowedEntries int            `json:"still_allowed_entries,omitempty"`

	Hint string `json:"hint,omitempty"` // what the operator may have meant
}

// narrow is a hint for a prefix that covers only part of one client's addresses.
func narrow(p netip.Prefix) string {
	if p.Addr().Is4() || p.Bits() <= clientBits6 {
		return ""
	}
	client, _ := p.Addr().Prefix(clientBits6) // a valid length
	return fmt.Sprintf("most clients have a whole /%d and can choose any address in it: %v bans all of it", clientBits6, client)
}

// clientBits6 is the least that an IPv6 client has. Rules count by it unless configured otherwise.
const clientBits6 = 64

// Ban bans the prefix in a body: JSON such as {"key":"192.0.2.0/24","for":"1h"}. The ban is in force when it
// returns. by names the caller, for the log. The error has a method HTTPStatus.
func (s *Set) Ban(body []byte, by string) (any, error) {
	var c change
	if err := strictjson.Decode(body, &c); err != nil {
		err = operator.WrongType(err, map[string]string{"key": "a text", "reason": "a text", "force": "true or false"})
		return nil, operator.Refuse(http.StatusBadRequest, "the body is not a ban: %v; %s", err, example)
	}
	life, err := c.For.Life()
	if err != nil {
		return nil, err
	}
	p, err := ParsePrefix(c.Key)
	if err != nil {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "key: %v", err)
	}
	if len(c.Reason) > maxReason {
		return nil, operator.Refuse(http.StatusBadRequest, "reason: %d bytes; want at most %d", len(c.Reason), maxReason)
	}
	if why := s.node.Protects(p); why != "" && !c.Force {
		return nil, operator.Refuse(http.StatusConflict, `%s %s: to do it anyway, send "force":true (fastlimit ban --force)`, keytext.Prefix(p), why)
	}
	now := s.set(p, life, c.Reason)
	if now.times == 0 {
		return nil, operator.Refuse(http.StatusUnprocessableEntity, "%d prefixes are banned, which is the most: unban some, ban shorter prefixes, or write them to a file in deny", maxPrefixes)
	}
	line := []any{slog.String("by", by), slog.String("key", keytext.Prefix(p)), slog.Duration("for", life), slog.Time("until", time.Now().Add(life).UTC())}
	if c.Reason != "" {
		line = append(line, slog.String("reason", safetext.ASCII(c.Reason, maxReason)))
	}
	s.config.Log.Info("ban set", line...)
	d := Done{Shown: shownPrefix(p, life, &now)}
	d.Hint = narrow(p)
	d.Kernel = s.held(p.Addr())
	d.Allowed, d.AllowedEntries = s.node.Lists().AllowedWithin(p, maxAllowed)
	return d, nil
}

// ParsePrefix reads an address or a prefix that can be banned. The error is one line.
func ParsePrefix(text string) (netip.Prefix, error) {
	p, err := policy.ParseBan(text)
	if err != nil {
		return p, errors.New(operator.First(err))
	}
	return p, nil
}

// Ended is the answer to the end of bans. Its names are part of the contract.
type Ended struct {
	Unbanned []Which `json:"unbanned"`
}

// Which names a ban.
type Which struct {
	Key  string `json:"key"`
	Rule string `json:"rule"` // "" for one by an operator
	By   string `json:"by"`
}

// Unban ends the bans of exactly this key: the operators' ban of the prefix, and the bans of all rules, or
// only of rule if it is not "". The key is a request's, in parts or as one text, or what List shows, which
// may be cut. by names the caller, for the log. The error has a method HTTPStatus.
func (s *Set) Unban(rule string, key []string, by string) (any, error) {
	on := s.on.Load()
	rules, err := on.named(rule)
	if err != nil {
		return nil, err
	}
	u := unban{Set: s, rules: on}
	p, wrong := prefixOf(key)
	if rule == "" && wrong == nil && s.end(p) {
		u.ended(Which{Key: keytext.Prefix(p), By: byOperator}, p)
	}
	for _, r := range rules {
		if err := u.rule(r, key); err == nil {
			wrong = nil
		} else if rule != "" {
			return nil, operator.Refuse(http.StatusUnprocessableEntity, "key: %s", operator.First(err))
		}
	}
	if len(u.all) == 0 {
		return nil, s.notBanned(rule, key, p, wrong)
	}
	for _, w := range u.all {
		s.config.Log.Info("ban ended", slog.String("by", by), slog.String("key", w.Key), slog.String("rule", w.Rule))
	}
	return Ended{u.all}, nil
}

// unban is one call that ends the bans of a key.
type unban struct {
	*Set
	*rules
	all []Which
}

// rule ends the ban of a rule for a key, or those shown under that text. The error says why the rule can have
// no such key.
func (u *unban) rule(r *fastlimit.Rule, written []string) error {
	key, err := u.engine.KeyFromText(r, u.engine.ReadKey(r, written))
	ended := err == nil && u.ofRule(r, func(b *fastlimit.Ban) bool { return b.Digest == key.Digest() })
	if err == nil {
		r.Unban(key) // also forgets what counts towards the next ban
	}
	text := keytext.Join(written)
	if len(written) == 1 {
		text = written[0]
	}
	if !ended && u.ofRule(r, func(b *fastlimit.Ban) bool { return u.engine.TalkerText(r, []byte(b.Name)).Text == text }) {
		return nil
	}
	return err // it names the rule
}

// ofRule ends the bans of a rule that meant selects, and reports whether there were any.
func (u *unban) ofRule(r *fastlimit.Rule, meant func(*fastlimit.Ban) bool) (any bool) {
	for b := range r.Bans() {
		if meant(&b) && (*engine.Rule)(r).UnbanDigest(b.Digest) {
			p, _ := b.Prefix() // invalid if the key is not a prefix
			shown := u.shown(&b)
			u.name(&shown)
			u.ended(Which{Key: shown.Key, Rule: shown.Rule, By: shown.By}, p)
			any = true
		}
	}
	return any
}

// ended records an ended ban. The prefix is invalid if the key is not one.
func (u *unban) ended(w Which, p netip.Prefix) {
	u.all = append(u.all, w)
	if p.IsValid() {
		u.node.KernelForgets(p)
	}
}

// prefixOf returns the prefix of a key, if it is one that operators can ban.
func prefixOf(key []string) (netip.Prefix, error) {
	if len(key) != 1 {
		return netip.Prefix{}, fmt.Errorf("a prefix is one key, not %d", len(key))
	}
	return policy.ParseBan(key[0])
}

// notBanned says that a key is not banned, and what may have been meant.
func (s *Set) notBanned(rule string, key []string, p netip.Prefix, wrong error) error {
	if wrong != nil {
		return operator.Refuse(http.StatusUnprocessableEntity, "key: %s", operator.First(wrong))
	}
	text := operator.KeyText(key) + " is not banned"
	if rule != "" {
		text += " by rule " + safetext.ASCII(rule, 64)
	}
	s.mu.Lock()
	bans := s.bans
	s.mu.Unlock()
	if wider, _, ok := bans.Lookup(p.Addr(), time.Now()); ok && wider.Bits() < p.Bits() {
		text += fmt.Sprintf("; %v, which contains it, is: unban that", wider)
	}
	return operator.Refuse(http.StatusNotFound, "%s", text)
}
