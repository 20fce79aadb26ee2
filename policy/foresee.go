package policy

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// Foresight is the decision that a rule, after the lists and operators' bans, would make on
// the next request of a client. The zero value is that of no rule.
type Foresight struct {
	// List is the list, or ListBan, that would decide before the rule; ListNone if none
	// does.
	List ListVerdict
	// Limit is the limit of the client: the rule, or the tier that an override gives it;
	// nil if it has no limit by the rule.
	Limit *fastlimit.Rule
	// Decision is what the request would get if the rule were enforced. Remaining is what
	// fits before the request. A denial may begin a ban, which lasts longer.
	Decision fastlimit.Decision
	// Unsure reports that the shared store would decide. It was not asked: Decision is what
	// this node's table would decide.
	Unsure bool
	// Waits reports that the request, if it may, would wait for RetryAfter of Decision.
	Waits bool
	// Level is what the client's exact bucket holds in this node's table, in units.
	Level float64
	// Suspicion is the sketch's estimate for the client, including others that share its
	// cells; from 1 on the client is checked exactly. -1 if no sketch is asked.
	Suspicion float64
}

// Allowed reports whether the rule in its mode would admit the request, possibly after a
// wait.
func (f *Foresight) Allowed() bool {
	shadow := f.List == ListNone && f.Limit != nil && f.Limit.Config().Mode == fastlimit.Shadow
	return f.Decision.Allowed || f.Waits || shadow
}

// Foresee returns what the next request of a client, of so many units, would get by a rule.
// A cost of 0 means the rule's cost. The client is named by the parts of its key as for
// [Engine.KeyFromText]. Foresee changes nothing.
func (e *Engine) Foresee(rule *fastlimit.Rule, parts []string, cost uint64, now time.Time) (Foresight, error) {
	limit, key, unlimited, err := e.LimitFromText(rule, parts)
	if err != nil {
		return Foresight{}, err
	}
	if unlimited {
		limit = nil
	}
	return e.foresee(rule, limit, key, cost, e.addrIn(rule, parts), now), nil
}

// foresee is Foresee for a client whose addresses all lie within p, which may be the zero
// Prefix.
func (e *Engine) foresee(rule, limit *fastlimit.Rule, key fastlimit.Key, cost uint64, p netip.Prefix, now time.Time) Foresight {
	f := Foresight{Limit: limit, Suspicion: -1}
	if f.Limit != nil {
		if cost == 0 {
			cost = rule.Config().Cost
		}
		seen := (*engine.Rule)(limit).Foresee(engine.Key(key), cost)
		f.Decision, f.Unsure, f.Waits, f.Level, f.Suspicion = seen.Decision, seen.Unsure, seen.Waits, seen.Level, seen.Suspicion
	}
	var listed fastlimit.Decision
	if f.List, listed = e.listedAs(p, now); f.List != ListNone || f.Limit == nil {
		f.Decision, f.Unsure, f.Waits = listed, false, false
	}
	return f
}

// Listed returns the list, or operator's ban, that decides on a client of a rule by the
// address in its key, and the decision. It returns ListNone for a key without an address.
func (e *Engine) Listed(rule *fastlimit.Rule, parts []string, now time.Time) (ListVerdict, fastlimit.Decision) {
	if e.lists == nil && e.bans == nil {
		return ListNone, fastlimit.Decision{}
	}
	return e.listedAs(e.addrIn(rule, parts), now)
}

// listedAs is Listed for clients whose addresses all lie within p, which may be the zero
// Prefix.
func (e *Engine) listedAs(p netip.Prefix, now time.Time) (v ListVerdict, d fastlimit.Decision) {
	if !p.IsValid() {
		return v, v.decision(0)
	}
	v, bits := e.lists.around(p)
	if ban, until, ok := e.bans.Around(p, now); ok && ban.Bits() >= bits {
		return ListBan, ListBan.decision(until.Sub(now))
	}
	return v, v.decision(0)
}

// Scope says which requests a rule is for, and how it tells their clients apart: whether it
// applies to all requests, and whether it counts by address alone. ok is false for a rule
// of another policy.
func (e *Engine) Scope(limit *fastlimit.Rule) (all, byAddress, ok bool) {
	c := e.ruleOf(limit)
	if c == nil {
		return false, false, false
	}
	return c.matchAll, c.addrOnly, true
}

// addrIn returns the address in a key, or the prefix by which the rule counts it; the zero
// Prefix if it has none.
func (e *Engine) addrIn(rule *fastlimit.Rule, parts []string) netip.Prefix {
	k := e.keyOf(rule)
	for i := range k.parts {
		if k.parts[i].Kind == KeyIP {
			if addr, err := k.addrFromText(parts[i]); err == nil {
				return k.prefix(addr)
			}
		}
	}
	return netip.Prefix{}
}

// ForeseenRequest is what the next request of a kind would get.
type ForeseenRequest struct {
	List    ListVerdict     // the list that decides, before all rules
	Refused *fastlimit.Rule // the rule that refuses it for its cost; nil: none does
	Rules   []ForeseenRule
}

// ForeseenRule is what one rule would decide on it.
type ForeseenRule struct {
	Rule *fastlimit.Rule
	Key  KeyText
	Foresight
}

// ForeseeRequest returns what a request would get by each of the rules that apply to it. It
// changes nothing. r is as for [Engine.Decide].
func (e *Engine) ForeseeRequest(r *Request, s *Scratch, now time.Time) (f ForeseenRequest) {
	client := netip.Prefix{}
	if addr := plain(r.Client); identifies(addr) {
		client = netip.PrefixFrom(addr, addr.BitLen())
	}
	f.List, _ = e.listedAs(client, now)
	bare := *e
	bare.lists, bare.bans, bare.owes = nil, nil, false // no rule charges a client that is on a list
	bare.collect(r, s, now)
	if f.List == ListNone {
		f.Refused = s.refused
	}
	add := func(rule, limit *fastlimit.Rule, key fastlimit.Key, cost uint64) {
		f.Rules = append(f.Rules, ForeseenRule{rule, e.KeyText(rule, r), e.foresee(rule, limit, key, cost, client, now)})
	}
	for i := range s.charges {
		c := &s.charges[i]
		add(e.rules[(*engine.Rule)(c.Rule).Index()].limit, c.Rule, c.Key, c.Cost)
	}
	for _, rule := range s.unlimited {
		add(rule, nil, fastlimit.Key{}, 0)
	}
	return f
}
