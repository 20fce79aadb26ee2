package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// Verdict is the decision on one request. It is a plain value.
type Verdict struct {
	// Decision says whether to admit the request and, for a denial, when to try again.
	Decision fastlimit.Decision
	// Rule is the rule that decided. It is nil if a list or an operator's ban decided, or
	// no enforced rule applied.
	Rule *fastlimit.Rule
	// List is the list that decided, if one did.
	List ListVerdict
	// Refused is why no decision was made and no client was charged: [RefusedCost], by
	// Rule, or NotRefused. Answer such a request like one that [Engine.Assemble] refuses.
	Refused Refusal
}

// Engine decides on requests by a compiled policy: the lists and bans, and the rules with
// their matches and keys. It is immutable and safe for concurrent use. The zero value is not
// usable: call [New].
type Engine struct {
	lim    *fastlimit.Limiter
	lists  *Lists    // nil: there are none
	bans   *Bans     // likewise
	rules  []rule    // in the limiter's order
	listed []rule    // those that the settings have; the others count prefixes of these rules' clients
	fields []KeyPart // the distinct headers and cookies that keys are made of
	waits  bool
	asks   bool // some rule has a shared store
	owes   bool // see Owes

	costHeaders []string
	headers     []string // see Headers
}

// rule is a compiled [RuleSpec]. The order of the fields matters: for the most common
// rule, one limit per address, a request reads only the first four, which are adjacent.
type rule struct {
	limit    *fastlimit.Rule
	cost     uint64
	matchAll bool // match has no conditions
	addrOnly bool // the key is one part, an address
	special  bool // see chargeSpecial
	match    matcher
	key      keyMaker

	overrides *overrides // nil: there are none

	headed   bool     // headers of trusted proxies have the cost or the rate; see named
	prefixes []int    // the rules that count prefixes of its clients
	families families // of the clients that such a prefix rule counts
	origin   int      // of a prefix rule: the rule whose clients' prefixes it counts

	costFrom, rateFrom string // canonical names of headers; "": none
	onBad              BadCost
	costOf             string // the response header that has the cost, likewise
}

// New compiles the settings. lim must have been made with s.Limits() as its rules:
//
//	lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits()})
//	engine, err := policy.New(lim, s)
//
// The error joins everything that is wrong.
func New(lim *fastlimit.Limiter, s Settings) (*Engine, error) {
	s = s.Expanded()
	limits := lim.Rules()
	if len(limits) != len(s.Rules) {
		return nil, fmt.Errorf("fastlimit/policy: %d rules for a limiter with %d: make both from the same settings", len(s.Rules), len(limits))
	}
	e := &Engine{lim: lim}
	var errs []error
	for i := range s.Rules {
		if err := e.addRule(limits[i], &s.Rules[i], s.ShowKeys); err != nil {
			errs = append(errs, err)
		}
	}
	e.setPrefixes(s.Rules)
	var err error
	if err = s.CheckOverrides(); err != nil {
		errs = append(errs, err)
	}
	if e.lists, err = NewLists(s.Allow, s.Deny); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return e, nil
}

func (e *Engine) addRule(limit *fastlimit.Rule, spec *RuleSpec, shown []string) error {
	var err error
	if _, made := spec.Origin(); !made { // its mistakes are those of the rule that it was made from
		err = spec.check()
	}
	if limit.Name() != spec.Limit.Name {
		err = errors.Join(fmt.Errorf("fastlimit/policy: rule %q: the limiter has %q in its place: make both from the same settings", spec.Limit.Name, limit.Name()), err)
	}
	config := limit.Config()
	r := rule{limit: limit, cost: config.Cost, match: compileMatch(spec.Match), key: e.compileKey(spec, config, shown)}
	r.matchAll, r.addrOnly = r.match.all(), r.key.addrOnly()
	file, err2 := spec.fileLayer(limit)
	r.overrides, err = newOverrides(file, nil), errors.Join(err, err2)
	r.costFrom, r.onBad = textproto.CanonicalMIMEHeaderKey(spec.CostFrom.Header), spec.OnBadCost
	r.rateFrom = textproto.CanonicalMIMEHeaderKey(spec.RateFrom.Header)
	r.costOf = e.addCostHeader(spec.CostFrom.ResponseHeader)
	r.headed = r.costFrom != "" || r.rateFrom != ""
	e.addHeaders(spec)
	r.special = r.headed
	e.rules = append(e.rules, r)
	e.asks = e.asks || (*engine.Rule)(limit).Shared()
	e.waits = e.waits || config.MaxWait > 0 && config.Mode == fastlimit.Enforce
	return err
}

// Headers returns the names of the header fields that rules read, in no order. A proxy must
// not pass on fields that its servers would read as one of them.
func (e *Engine) Headers() []string { return e.headers }

func (e *Engine) addHeaders(spec *RuleSpec) {
	for _, p := range spec.Reads() {
		if p.Kind == KeyHeader {
			e.headers = append(e.headers, p.Name)
		}
	}
	for _, name := range []string{spec.CostFrom.Header, spec.RateFrom.Header} {
		if name != "" {
			e.headers = append(e.headers, name)
		}
	}
}

// Decide decides on a request now and charges the rules that apply. It does not wait in
// queues; see [Engine.Wait]. It does not allocate once s has grown to its size
// (TestDecideDoesNotAllocate).
func (e *Engine) Decide(ctx context.Context, r *Request, s *Scratch) Verdict {
	return e.DecideAt(ctx, r, s, time.Time{})
}

// DecideAt is [Engine.Decide] for callers that have already called [time.Now] for this
// request, right before, and pass its result. With the zero Time it reads the clock.
func (e *Engine) DecideAt(ctx context.Context, r *Request, s *Scratch, now time.Time) Verdict {
	list := e.collect(r, s, now)
	if s.noted() && len(s.charges) > 0 {
		return e.charged(ctx, s, s.verdict((*engine.Limiter)(e.lim).TakeAllAt(ctx, engine.Charges(s.charges), now)))
	}
	return e.charged(ctx, s, s.uncharged(list))
}

// Asks reports whether decisions may wait for a shared store.
func (e *Engine) Asks() bool { return e.asks }

// DenyAt is [Engine.DecideAt] for callers who must not be kept waiting by a store: it denies
// what lists, bans and this node's buckets deny, and reports false in all other cases. Then nothing
// has changed, and nothing was counted. It is not for an engine that [Engine.Waits].
func (e *Engine) DenyAt(r *Request, s *Scratch, now time.Time) (v Verdict, denied bool) {
	defer s.clearApart()
	if list := e.collect(r, s, now); list != ListNone {
		if v = s.uncharged(list); v.Decision.Allowed {
			v = Verdict{}
		}
		return v, list != ListAllow
	}
	if !s.plain() || len(s.charges) == 0 {
		return Verdict{}, false
	}
	d, by, denied := (*engine.Limiter)(e.lim).DenyAllAt(engine.Charges(s.charges), now)
	if !denied {
		return Verdict{}, false
	}
	return s.verdict(d, by), true
}

// charged is what is left to do after a decision.
func (e *Engine) charged(ctx context.Context, s *Scratch, v Verdict) Verdict {
	if e.owes {
		e.takeApart(ctx, s, &v)
	}
	return v
}

// Unread returns an engine for requests that could not be read, so that only their sender
// is known. It has the rules that count by address alone and match all requests, and shares
// everything else with e, which does not change.
func (e *Engine) Unread() *Engine {
	next := *e
	next.listed, next.fields, next.waits, next.owes = nil, nil, false, false
	for i := range e.listed {
		if c := &e.listed[i]; c.matchAll && c.addrOnly {
			next.listed = append(next.listed, *c)
		}
	}
	return &next
}

// Waits reports whether some enforced rule lets requests wait. If none does,
// [Engine.Wait] is [Engine.Decide].
func (e *Engine) Waits() bool { return e.waits }

// Wait is [Engine.Decide] for a request that may wait in a queue; see
// [fastlimit.Limiter.WaitAll]. It blocks its caller. The bytes of the request must not
// change until it returns.
func (e *Engine) Wait(ctx context.Context, r *Request, s *Scratch) Verdict {
	return e.wait(ctx, nil, r, s, time.Time{})
}

// Waiter is a caller that learns when its request begins to wait. That is rare, and all
// other requests are spared the work of noticing that a client leaves. Both methods are
// called on the goroutine of the caller.
type Waiter interface {
	// BeginWait is called at most once, when the request has got a slot in a queue. The
	// request waits until ctx ends at the latest.
	BeginWait() (ctx context.Context)
	// EndWait is called when there is a decision on a request that has waited.
	EndWait()
}

// WaitFor is [Engine.Wait] for a caller that has read the clock, like that of
// [Engine.DecideAt], and that learns through w when its request waits.
func (e *Engine) WaitFor(w Waiter, r *Request, s *Scratch, now time.Time) Verdict {
	return e.wait(context.Background(), w, r, s, now)
}

func (e *Engine) wait(ctx context.Context, w Waiter, r *Request, s *Scratch, now time.Time) Verdict {
	list := e.collect(r, s, now)
	if s.noted() && len(s.charges) > 0 {
		return e.charged(ctx, s, s.verdict((*engine.Limiter)(e.lim).WaitAllFor(ctx, w, engine.Charges(s.charges), now)))
	}
	return e.charged(ctx, s, s.uncharged(list))
}

// Applying returns what [Engine.Decide] would charge for a request, without charging it. It
// is empty for a client on a list, or banned by an operator. The slice and its keys are
// valid until the next use of s.
func (e *Engine) Applying(r *Request, s *Scratch) []fastlimit.Charge {
	e.collect(r, s, time.Time{})
	s.charges = append(s.charges, s.apart...)
	s.clearApart()
	return s.charges
}

// collect looks the client up in the bans and the lists. If it is in none of them, collect
// appends to s.charges what to charge by the rules that apply. now may be zero: the clock
// is then read if there are bans.
func (e *Engine) collect(r *Request, s *Scratch, now time.Time) ListVerdict {
	s.reset()
	s.client = plain(r.Client)
	if e.bans != nil && e.banned(s, now) {
		s.trim()
		return ListBan
	}
	if v := e.lists.lookup(s.client); v != ListNone {
		s.trim()
		return v
	}
	if len(e.fields) > 0 {
		if r.by != e { // the request was not assembled, or by an engine with other fields
			e.lookUp(r.Fields, s)
			s.keyed = s.values
		} else {
			s.keyed = r.values
		}
	}
	if r.SkipIPRules {
		s.client = netip.Addr{} // no rule with an address in its key applies
	}
	for i := range e.listed {
		c := &e.listed[i]
		if !c.matchAll && !c.match.match(r) {
			continue
		}
		key, ok := e.key(c, r, s)
		if !ok {
			continue
		}
		limit := c.limit
		if o := c.overrides; o != nil && !o.none(key.Digest().ID) {
			if limit = c.find(key, s.client); limit == nil {
				s.unlimited = append(s.unlimited, c.limit)
				continue
			}
		}
		if c.special {
			e.chargeSpecial(c, limit, key, r, s)
			continue
		}
		s.charges = append(s.charges, fastlimit.Charge{Rule: limit, Key: key, Cost: c.cost})
	}
	s.trim()
	if e.owes {
		e.setApart(s)
	}
	return ListNone
}

// uncharged returns the verdict if no rule was charged: that of a list, which includes
// overrides without limit, or what [fastlimit.Limiter.TakeAll] returns for no charges.
func (s *Scratch) uncharged(list ListVerdict) Verdict {
	if s.refused != nil {
		return s.refusal()
	}
	v := Verdict{List: list, Decision: list.decision(s.banned)}
	if list == ListNone && len(s.unlimited) == 0 {
		v.Decision.Stage = fastlimit.StageFilter
	}
	return v
}
