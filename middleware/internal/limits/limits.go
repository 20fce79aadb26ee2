// Package limits decides on a request by several rules. It is what the middlewares
// for net/http, fasthttp and gRPC have in common. R is the type in which a server
// hands a request to its handlers. Their exported types (Config, Limit, Verdict) are
// written out in each of them, so that go doc shows a middleware in one place.
package limits

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// Limit is one rule and how it applies to requests: the Limit that a middleware exports.
type Limit[R any] struct {
	Rule *fastlimit.Rule
	// Key returns the key of a request; ok is false where the rule does not
	// apply. nil means the address of the client.
	Key func(R) (key fastlimit.Key, ok bool)
	// Cost returns what a request costs; at 0 the rule does not apply. nil means
	// the rule's cost.
	Cost func(R) uint64
}

// compiled is a Limit with what depends on its rule only.
type compiled[R any] struct {
	Limit[R]
	cost   uint64 // of the rule
	answer *denial.Answer
}

// Set is the limits of one middleware. It is safe for concurrent use.
type Set[R any] struct {
	limiter  *fastlimit.Limiter
	limits   []compiled[R]
	byClient bool // some limit goes by the address of the client
	client   func(R, *policy.Identity) (netip.Addr, policy.ClientSource)
	clients  *policy.Identity
	charges  sync.Pool // *[]fastlimit.Charge, for more than few limits: too large for the stack
}

// New checks the limits, of which there must be at least one, the HTTP status of their
// denials, 0 for 429, and the header sets of their answers, none for the default. name is that of the middleware, for errors. L is the Limit
// that it exports, the same struct as [Limit]. client names the client of a request as
// clients sees it; nil clients trust nobody.
func New[R any, L ~struct {
	Rule *fastlimit.Rule
	Key  func(R) (key fastlimit.Key, ok bool)
	Cost func(R) uint64
}](name string, all []L, status int, headers []denial.HeaderSet, client func(R, *policy.Identity) (netip.Addr, policy.ClientSource), clients *policy.Identity) (*Set[R], error) {
	fail := func(format string, args ...any) (*Set[R], error) {
		return nil, fmt.Errorf("fastlimit/middleware/"+name+": "+format, args...)
	}
	status = cmp.Or(status, http.StatusTooManyRequests)
	at, wrong, fix := denial.CheckHeaders(headers)
	switch {
	case status < 400 || status > 599:
		return fail("DenyStatus %d: want 400 to 599, 429 for most", status)
	case wrong != "":
		return fail("Headers[%d]: %s: %s", at, wrong, fix)
	case len(all) == 0:
		return fail("no Limits: name at least one rule, from Limiter.Rule")
	case len(all) > limit.MaxRules:
		return fail("%d Limits: want at most %d", len(all), limit.MaxRules)
	}
	s := &Set[R]{client: client, clients: cmp.Or(clients, new(policy.Identity))}
	s.charges.New = func() any { return new(make([]fastlimit.Charge, len(all))) }
	seen := make(map[*fastlimit.Rule]bool, len(all))
	for i := range all {
		l := compiled[R]{Limit: Limit[R](all[i])}
		if l.Rule == nil {
			return fail("no Rule in Limits[%d]: get one with Limiter.Rule", i)
		}
		of := (*fastlimit.Limiter)((*engine.Rule)(l.Rule).Limiter())
		s.limiter = cmp.Or(s.limiter, of)
		switch {
		case of != s.limiter:
			return fail("rule %q in Limits[%d] is of another Limiter: what one rule took could not be given back; use rules of one", l.Rule.Name(), i)
		case seen[l.Rule]:
			return fail("rule %q in Limits[%d] is listed twice: name it once", l.Rule.Name(), i)
		}
		seen[l.Rule] = true
		l.cost, l.answer = l.Rule.Config().Cost, denial.New(l.Rule.Config(), denial.Options{Status: status, Headers: headers})
		s.limits = append(s.limits, l)
		s.byClient = s.byClient || l.Key == nil
	}
	return s, nil
}

// Outcome is the decision on one request. It is a plain value.
type Outcome struct {
	fastlimit.Decision
	Rule    *fastlimit.Rule // the rule that decided; nil if no enforced rule applied
	Answer  *denial.Answer  // renders the denials of Rule; nil without one
	Refused policy.Refusal  // why no decision was made and nothing charged
}

// few is the number of limits whose charges are kept on the stack: enough for most
// servers, without a trip to the pool.
const few = 4

// Decide charges a request to all rules that apply to it, or to none if one denies it.
// A refused request is not charged. Decide does not allocate.
func (s *Set[R]) Decide(ctx context.Context, r R) Outcome {
	if len(s.limits) <= few {
		var list [few]fastlimit.Charge
		return s.decide(ctx, r, list[:0])
	}
	list := s.charges.Get().(*[]fastlimit.Charge)
	o := s.decide(ctx, r, (*list)[:0])
	clear(*list) // the keys would keep the request alive in the pool
	s.charges.Put(list)
	return o
}

// decide is Decide, with list as room for the charges.
func (s *Set[R]) decide(ctx context.Context, r R, list []fastlimit.Charge) (o Outcome) {
	var client netip.Addr
	if s.byClient {
		if client, o.Refused = s.clientOf(r); o.Refused != policy.NotRefused {
			return o
		}
	}
	for i := range s.limits {
		l := &s.limits[i]
		charge := fastlimit.Charge{Rule: l.Rule, Cost: l.cost}
		applies := true
		switch {
		case l.Key != nil:
			charge.Key, applies = l.Key(r)
		case client.IsValid():
			charge.Key = l.Rule.AddrKey(client)
		default: // policy.UnnamedSkip
			applies = false
		}
		if applies && l.Cost != nil {
			charge.Cost = l.Cost(r)
			applies = charge.Cost > 0
		}
		if applies {
			list = append(list, charge)
		}
	}
	if len(list) == 0 {
		o.Allowed, o.Stage, o.Remaining = true, fastlimit.StageFilter, fastlimit.RemainingUnknown
		return o
	}
	var by int
	if o.Decision, by = s.limiter.WaitAll(ctx, list); by < 0 {
		return o
	}
	o.Rule = list[by].Rule
	for i := range s.limits {
		if s.limits[i].Rule == o.Rule {
			o.Answer = s.limits[i].answer
		}
	}
	return o
}

// clientOf returns the client of a request, or the invalid address if rules by client
// are to be left out.
func (s *Set[R]) clientOf(r R) (netip.Addr, policy.Refusal) {
	client, source := s.client(r, s.clients)
	unnamed := source == policy.ClientUnnamed
	switch {
	case source == policy.ClientNoAddress:
		return client, policy.RefusedPeer
	case unnamed && s.clients.OnUnnamed() == policy.UnnamedDeny:
		return client, policy.RefusedUnnamed
	case unnamed && s.clients.OnUnnamed() == policy.UnnamedSkip:
		return netip.Addr{}, policy.NotRefused
	}
	return client, policy.NotRefused
}

// Detail is what a refused client is told.
func Detail(refused policy.Refusal) string {
	if refused == policy.RefusedUnnamed {
		return "the proxy did not name the client"
	}
	return "the connection has no client address"
}
