// Package limits decides on a request by several rules. It is what the middlewares
// for net/http, fasthttp and gRPC have in common. R is the type in which a server
// hands a request to its handlers.
package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Limit is one rule and how it applies to requests.
type Limit[R any] struct {
	Rule *fastlimit.Rule
	// Key returns the key of a request; ok is false where the rule does not
	// apply. nil means the address of the client.
	Key func(R) (key fastlimit.Key, ok bool)
	// Cost returns what a request costs; at 0 the rule does not apply. nil means
	// the rule's cost.
	Cost func(R) uint64
}

// Set is the limits of one middleware. It is safe for concurrent use.
type Set[R any] struct {
	limiter *fastlimit.Limiter
	limits  []Limit[R]
	costs   []uint64 // of the rules
	client  func(R, *policy.Identity) (netip.Addr, policy.Origin)
	clients *policy.Identity
	charges sync.Pool // *charges
}

// charges are the charges of one request to more than few limits. They are pooled, as
// they are too large for the stack.
type charges struct{ list []fastlimit.Charge }

// New checks the limits, of which there must be at least one. L is the Limit that a
// middleware exports, the same struct as [Limit]. client names the client of a
// request as clients sees it; nil clients trust nobody.
func New[R any, L ~struct {
	Rule *fastlimit.Rule
	Key  func(R) (key fastlimit.Key, ok bool)
	Cost func(R) uint64
}](all []L, client func(R, *policy.Identity) (netip.Addr, policy.Origin), clients *policy.Identity) (*Set[R], error) {
	if len(all) == 0 {
		return nil, errors.New("no Limits: name at least one rule, from Limiter.Rule")
	}
	if len(all) > fastlimit.MaxRules {
		return nil, fmt.Errorf("%d Limits: want at most %d", len(all), fastlimit.MaxRules)
	}
	s := &Set[R]{client: client, clients: cmp.Or(clients, new(policy.Identity))}
	s.charges.New = func() any { return &charges{make([]fastlimit.Charge, len(all))} }
	seen := make(map[*fastlimit.Rule]bool, len(all))
	for i := range all {
		l := Limit[R](all[i])
		if l.Rule == nil {
			return nil, fmt.Errorf("no Rule in Limits[%d]: get one with Limiter.Rule", i)
		}
		if i == 0 {
			s.limiter = l.Rule.Limiter()
		} else if l.Rule.Limiter() != s.limiter {
			return nil, fmt.Errorf("rule %q in Limits[%d] is of another Limiter: what one rule took could not be given back; use rules of one", l.Rule.Name(), i)
		}
		if seen[l.Rule] {
			return nil, fmt.Errorf("rule %q in Limits[%d] stands there twice: name it once", l.Rule.Name(), i)
		}
		seen[l.Rule] = true
		s.limits, s.costs = append(s.limits, l), append(s.costs, l.Rule.Config().Cost)
	}
	return s, nil
}

// Rule is the rule of the limit at an index that [Set.Decide] has returned.
func (s *Set[R]) Rule(by int) *fastlimit.Rule { return s.limits[by].Rule }

// few is the number of limits whose charges are kept on the stack: enough for most
// servers, without a trip to the pool.
const few = 4

// Decide charges a request to all rules that apply to it, or to none if one denies it.
// by is the index of the limit that decided, -1 if no enforced rule applied. A refused
// request is not charged. Decide does not allocate.
func (s *Set[R]) Decide(ctx context.Context, r R) (d fastlimit.Decision, by int, refused policy.Refusal) {
	if len(s.limits) <= few {
		var list [few]fastlimit.Charge
		return s.decide(ctx, r, list[:0])
	}
	c := s.charges.Get().(*charges)
	d, by, refused = s.decide(ctx, r, c.list[:0])
	clear(c.list[:len(s.limits)]) // the keys would keep the request alive in the pool
	s.charges.Put(c)
	return d, by, refused
}

// decide is Decide, with list as room for the charges. The client is looked up only
// if a rule goes by it, and then once.
func (s *Set[R]) decide(ctx context.Context, r R, list []fastlimit.Charge) (d fastlimit.Decision, by int, refused policy.Refusal) {
	var client netip.Addr
	known := false
	for i := range s.limits {
		l := &s.limits[i]
		var key fastlimit.Key
		if l.Key != nil {
			var ok bool
			if key, ok = l.Key(r); !ok {
				continue
			}
		} else {
			if !known {
				if client, refused = s.clientOf(r); refused != policy.NotRefused {
					return d, -1, refused
				}
				known = true
			}
			if !client.IsValid() {
				continue // no rule by client applies
			}
			key = l.Rule.AddrKey(client)
		}
		cost := s.costs[i]
		if l.Cost != nil {
			if cost = l.Cost(r); cost == 0 {
				continue
			}
		}
		list = append(list, fastlimit.Charge{Rule: l.Rule, Key: key, Cost: cost})
	}
	d, by = s.take(ctx, list)
	return d, by, refused
}

// clientOf returns the client of a request, or the invalid address if rules by client
// are to be left out.
func (s *Set[R]) clientOf(r R) (netip.Addr, policy.Refusal) {
	client, from := s.client(r, s.clients)
	switch {
	case from == policy.NoAddress:
		return client, policy.RefusedPeer
	case from == policy.FromProxy && s.clients.OnUnnamed() == policy.UnnamedDeny:
		return client, policy.RefusedUnnamed
	case from == policy.FromProxy && s.clients.OnUnnamed() == policy.UnnamedSkip:
		return netip.Addr{}, policy.NotRefused
	}
	return client, policy.NotRefused
}

func (s *Set[R]) take(ctx context.Context, list []fastlimit.Charge) (d fastlimit.Decision, by int) {
	if len(list) == 0 {
		d.Allowed, d.Stage, d.Remaining = true, fastlimit.StageFilter, fastlimit.RemainingUnknown
		return d, -1
	}
	d, at := s.limiter.TakeAll(ctx, list)
	if at < 0 {
		return d, -1
	}
	for by = range s.limits {
		if s.limits[by].Rule == list[at].Rule {
			return d, by
		}
	}
	panic("BUG: limits: a decision by a rule that was not charged")
}

// Detail is what a refused client is told.
func Detail(refused policy.Refusal) string {
	if refused == policy.RefusedUnnamed {
		return "the proxy did not name the client"
	}
	return "the connection has no client address"
}

// CheckStatus fills in and checks the status of denials.
func CheckStatus(status int) (int, error) {
	if status == 0 {
		return 429, nil
	}
	if status < 400 || status > 599 {
		return 0, fmt.Errorf("DenyStatus %d: want 400 to 599, 429 for most", status)
	}
	return status, nil
}
