package policy

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"

	"github.com/fastlimit/fastlimit"
	"github.com/gaissmai/bart"
)

// LiveOverride is an override beside those of the settings, for as long as an engine has
// it: see [Engine.WithLive].
type LiveOverride struct {
	Rule int // its place in Settings.Rules
	Key  []string
	Tier *fastlimit.Rule // of [fastlimit.Rule.NewTier]; nil: the clients are not limited
}

// CheckOverride checks one override as it would be checked among those of the settings,
// but for the limit itself, which [fastlimit.Rule.NewTier] checks. It returns a name that
// no override of the rule for other clients has, however the key is written, and for how
// many clients it is at most, 0 if that is not known. The error joins all that is wrong,
// each a [fastlimit.FieldError] named Overrides[0].Key or the like.
func (r *RuleSpec) CheckOverride(o *Override) (name string, clients int, err error) {
	one := *r
	one.Overrides = []Override{*o}
	if _, err := one.compileOverrides(); err != nil {
		return "", 0, err
	}
	c := overrides{addrs: new(bart.Table[int32]), sieve: newSieve(1), texts: map[string]int32{}}
	if name, err = c.add(r, o, unlimited); err != nil {
		return "", 0, err // cannot be: it was added a moment ago
	}
	return name, max(0, r.clientsOf(o)), nil
}

// LimitOf is the limit of an override as [RuleSpec.Tiers] has it, for so many clients.
func (o *Override) LimitOf(clients int) fastlimit.Tier {
	t := fastlimit.Tier{Rate: o.Rate, Burst: o.Burst, Clients: clients}
	if t.Burst == o.Rate.N {
		t.Burst = 0 // which means that
	}
	return t
}

// live are the live overrides of a rule, compiled. Immutable.
type live struct {
	addrs bart.Table[*fastlimit.Rule]
	texts map[string]*fastlimit.Rule
	sieve *sieve
}

// WithLive returns an engine with these live overrides, instead of those that e has. Of a
// client for which there is also one in the settings, the one with the longer prefix
// decides, and if they are equal the live one. It shares all else with e, which stays as it
// is, and takes time in proportion to the live overrides alone. s are the settings e was
// made of. No two are for the same clients.
func (e *Engine) WithLive(s *Settings, all []LiveOverride) (*Engine, error) {
	next := *e
	next.rules = append([]rule(nil), e.rules...)
	byRule := make([]int, len(e.rules))
	for i := range all {
		byRule[all[i].Rule]++
	}
	for i := range next.rules {
		next.rules[i].setLive(byRule[i])
	}
	var errs []error
	for i := range all {
		o := &all[i]
		c := &next.rules[o.Rule]
		if o.Tier != nil && (o.Tier.Base() != c.limit || o.Tier == c.limit) {
			errs = append(errs, fmt.Errorf("fastlimit/policy: rule %q: the tier is not one of its", c.limit.Name()))
			continue
		}
		errs = append(errs, c.overrides.live.add(&s.Rules[o.Rule], o))
	}
	return &next, errors.Join(errs...)
}

// setLive replaces the live overrides by none, with room for n.
func (c *rule) setLive(n int) {
	o := new(overrides)
	if c.overrides != nil {
		o.addrs, o.texts, o.sieve = c.overrides.addrs, c.overrides.texts, c.overrides.sieve
	}
	if n > 0 {
		o.live = &live{sieve: newSieve(n), texts: map[string]*fastlimit.Rule{}}
	}
	if c.overrides = o; o.live == nil && o.sieve == nil {
		c.overrides = nil
	}
}

func (l *live) add(r *RuleSpec, o *LiveOverride) error {
	key := Override{Key: o.Key}
	if r.byAddress() {
		p, err := r.overridePrefix(&key)
		if err == nil {
			l.addrs.Insert(p, o.Tier)
			l.sieve.addPrefix(p)
		}
		return err
	}
	b, err := r.overrideKey(&key)
	if err == nil {
		l.texts[string(b)] = o.Tier
		l.sieve.add(maphash.Bytes(l.sieve.seed, b))
	}
	return err
}

// findAddr is find for a rule that counts by address, with live overrides.
func (c *rule) findAddr(client netip.Addr) *fastlimit.Rule {
	l := c.overrides.live
	if !l.sieve.hasAddr(client) {
		return c.fileAddr(client)
	}
	p, limit, ok := l.addrs.LookupPrefixLPM(hostPrefix(client))
	if !ok {
		return c.fileAddr(client)
	}
	if c.overrides.sieve != nil {
		if of, tier, ok := c.overrides.addrs.LookupPrefixLPM(hostPrefix(client)); ok && of.Bits() > p.Bits() {
			return c.tier(tier, true)
		}
	}
	return limit
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// fileAddr is find by the overrides of the settings alone.
func (c *rule) fileAddr(client netip.Addr) *fastlimit.Rule {
	if s := c.overrides.sieve; s == nil || !s.hasAddr(client) {
		return c.limit
	}
	tier, ok := c.overrides.addrs.Lookup(client)
	return c.tier(tier, ok)
}

// findLiveText returns the live limit of the client whose framed key that is.
func (l *live) findLiveText(framed []byte) (limit *fastlimit.Rule, ok bool) {
	if !l.sieve.has(maphash.Bytes(l.sieve.seed, framed)) {
		return nil, false
	}
	limit, ok = l.texts[string(framed)]
	return limit, ok
}
