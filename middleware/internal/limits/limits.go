// Package limits decides on a request by several rules: what the middlewares
// for net/http, fasthttp and gRPC have in common. R is how a server hands a
// request to its handlers.
package limits

import (
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
	client  func(R) (netip.Addr, policy.Origin)
	unnamed policy.OnUnnamed
	charges sync.Pool // *charges
}

// charges are the charges of one request to many limits: pooled, so that a
// decision does not allocate.
type charges struct{ list []fastlimit.Charge }

// New checks the limits, of which there is at least one. client names the client
// of a request, unnamed is what to do where a proxy does not.
func New[R any](all []Limit[R], client func(R) (netip.Addr, policy.Origin), unnamed policy.OnUnnamed) (*Set[R], error) {
	if len(all) == 0 {
		return nil, errors.New("no Limits: name at least one rule, from Limiter.Rule")
	}
	if len(all) > fastlimit.MaxRules {
		return nil, fmt.Errorf("%d Limits: want at most %d", len(all), fastlimit.MaxRules)
	}
	s := &Set[R]{limits: append([]Limit[R](nil), all...), client: client, unnamed: unnamed}
	s.charges.New = func() any { return &charges{make([]fastlimit.Charge, len(all))} }
	seen := make(map[*fastlimit.Rule]bool, len(all))
	for i, l := range all {
		if l.Rule == nil {
			return nil, fmt.Errorf("no Rule in Limits[%d]: get one with Limiter.Rule", i)
		}
		if l.Rule.Limiter() != all[0].Rule.Limiter() {
			return nil, fmt.Errorf("rule %q in Limits[%d] is of another Limiter: what one rule took could not be given back; use rules of one", l.Rule.Name(), i)
		}
		if seen[l.Rule] {
			return nil, fmt.Errorf("rule %q in Limits[%d] stands there twice: name it once", l.Rule.Name(), i)
		}
		seen[l.Rule] = true
		s.costs = append(s.costs, l.Rule.Config().Cost)
	}
	s.limiter = all[0].Rule.Limiter()
	return s, nil
}

// few is the number of limits whose charges fit the stack: nearly all sets.
const few = 4

// Decide charges a request to all rules that apply to it, or to none. by is the
// index of the limit that the decision is by, -1 if no enforced rule applied.
// Nothing was charged if the request is refused. It does not allocate.
func (s *Set[R]) Decide(ctx context.Context, r R) (d fastlimit.Decision, by int, refused policy.Refusal) {
	if len(s.limits) <= few {
		var list [few]fastlimit.Charge
		return s.decide(ctx, r, list[:0])
	}
	c := s.charges.Get().(*charges)
	d, by, refused = s.decide(ctx, r, c.list[:0])
	clear(c.list[:len(s.limits)]) // the pool keeps no request alive
	s.charges.Put(c)
	return d, by, refused
}

// decide is Decide with room for the charges.
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

// clientOf returns the client, invalid where the rules by client do not apply.
func (s *Set[R]) clientOf(r R) (netip.Addr, policy.Refusal) {
	client, from := s.client(r)
	switch {
	case from == policy.NoAddress:
		return client, policy.RefusedPeer
	case from == policy.FromProxy && s.unnamed == policy.UnnamedDeny:
		return client, policy.RefusedUnnamed
	case from == policy.FromProxy && s.unnamed == policy.UnnamedSkip:
		return netip.Addr{}, policy.NotRefused
	}
	return client, policy.NotRefused
}

func (s *Set[R]) take(ctx context.Context, list []fastlimit.Charge) (d fastlimit.Decision, by int) {
	if len(list) == 0 {
		d.Allowed, d.Stage, d.Remaining = true, fastlimit.StageFilter, fastlimit.Unknown
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
