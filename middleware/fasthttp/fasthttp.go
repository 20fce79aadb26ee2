// Package fasthttplimit is a middleware for fasthttp servers that limits clients
// by rules of a limiter, without allocating. It links the limiter, package policy
// and fasthttp.
//
//	limited, err := fasthttplimit.New(fasthttplimit.Config{Limits: []fasthttplimit.Limit{{Rule: perIP}}})
//	fasthttp.ListenAndServe(":8080", limited.Wrap(handler))
//
// An admitted request goes on unchanged. A denied one is answered here:
// Retry-After, RateLimit-Policy, RateLimit, X-RateLimit-* and a problem document
// (RFC 9457), unless OnDeny answers in its own way.
//
// # Who the client is
//
// The peer of the connection, unless Config.Clients names proxies to trust; then
// whom they name. A request whose client has no address is answered 400, as a
// key shared by all such clients would let one deny the others.
package fasthttplimit

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/middleware/internal/limits"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

// Config configures a [Middleware].
type Config struct {
	// Limits are the rules, all of one limiter. At least one. A request is
	// admitted if all that apply admit it; one that any denies is not charged to
	// the others. Shadow rules count and deny nobody.
	Limits []Limit

	// Clients tells who the client of a request is behind trusted proxies. nil:
	// nobody is trusted, the peer is the client.
	Clients *policy.Identity

	// Skip exempts requests from all limits, uncharged. nil: none.
	Skip func(ctx *fasthttp.RequestCtx) bool

	// DenyStatus is the status of a denial, 400 to 599. 0 means 429.
	DenyStatus int

	// OnDeny answers denied requests. nil means v.Write(&ctx.Response).
	OnDeny func(ctx *fasthttp.RequestCtx, v *Verdict)

	// OnAllow is called for admitted requests after their handler, which may have
	// reset the response: v.SetHeaders tells clients of their limit before they
	// exceed it. nil: nothing is.
	OnAllow func(ctx *fasthttp.RequestCtx, v *Verdict)
}

// Limit is one rule and how it applies to requests.
type Limit struct {
	// Rule is the limit. Required.
	Rule *fastlimit.Rule
	// Key returns the key of a request, made by the rule; ok is false where the
	// rule does not apply. Its parts may borrow from the request. nil means the
	// address of the client, see [Client].
	Key func(ctx *fasthttp.RequestCtx) (key fastlimit.Key, ok bool)
	// Cost returns what a request costs; at 0 the rule does not apply, above the
	// rule's burst it always denies. nil means the rule's cost.
	Cost func(ctx *fasthttp.RequestCtx) uint64
}

// Verdict is the decision on one request. It is valid until the function that it
// was given to returns.
type Verdict struct {
	fastlimit.Decision

	// Rule is the rule that the decision is by: of several that deny the one with
	// the longest RetryAfter, of an admission the last enforced one; nil if none
	// applied.
	Rule *fastlimit.Rule

	answer *denial.Answer
	values denial.Values
}

// Middleware limits the requests to a handler. It is safe for concurrent use.
// The zero value is not usable: call [New].
type Middleware struct {
	config   Config
	limits   *limits.Set[*fasthttp.RequestCtx]
	answers  []*denial.Answer // by index of their limit
	verdicts sync.Pool        // *Verdict
}

// New checks the configuration.
func New(c Config) (*Middleware, error) {
	fail := func(err error) (*Middleware, error) {
		return nil, fmt.Errorf("fastlimit/middleware/fasthttp: %w", err)
	}
	if c.Clients == nil {
		c.Clients = new(policy.Identity)
	}
	c.Limits = slices.Clone(c.Limits)
	var err error
	if c.DenyStatus, err = limits.CheckStatus(c.DenyStatus); err != nil {
		return fail(err)
	}
	m := &Middleware{config: c}
	var all []limits.Limit[*fasthttp.RequestCtx]
	for _, l := range c.Limits {
		all = append(all, limits.Limit[*fasthttp.RequestCtx](l))
	}
	client := func(ctx *fasthttp.RequestCtx) (netip.Addr, policy.Origin) { return Client(ctx, c.Clients) }
	if m.limits, err = limits.New(all, client, c.Clients.OnUnnamed()); err != nil {
		return fail(err)
	}
	for _, l := range c.Limits {
		m.answers = append(m.answers, denial.New(l.Rule.Config(), c.DenyStatus))
	}
	m.verdicts.New = func() any { return new(Verdict) }
	return m, nil
}

// Client returns the client of a request and how it is known, see
// [policy.Identity.Client]. It does not allocate.
func Client(ctx *fasthttp.RequestCtx, clients *policy.Identity) (netip.Addr, policy.Origin) {
	var values [][]byte
	if name := clients.Header(); name != "" {
		values = ctx.Request.Header.PeekAll(name)
	}
	return clients.Client(policy.PeerAddr(ctx.RemoteAddr()), values)
}

// Wrap returns a handler that passes admitted requests on to next.
func (m *Middleware) Wrap(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	c := &m.config
	return func(ctx *fasthttp.RequestCtx) {
		if c.Skip != nil && c.Skip(ctx) {
			next(ctx)
			return
		}
		d, by, refused := m.limits.Decide(context.Background(), ctx)
		switch {
		case refused != policy.NotRefused:
			ctx.Error(limits.Detail(refused), fasthttp.StatusBadRequest)
		case !d.Allowed:
			m.tell(c.OnDeny, ctx, d, by)
		default:
			next(ctx)
			if c.OnAllow != nil {
				m.tell(c.OnAllow, ctx, d, by)
			}
		}
	}
}

// tell calls a function of the configuration; nil is the answer to a denial.
func (m *Middleware) tell(f func(*fasthttp.RequestCtx, *Verdict), ctx *fasthttp.RequestCtx, d fastlimit.Decision, by int) {
	v := m.verdicts.Get().(*Verdict)
	v.Decision, v.Rule, v.answer = d, nil, nil
	if by >= 0 {
		v.Rule, v.answer = m.config.Limits[by].Rule, m.answers[by]
	}
	if f != nil {
		f(ctx, v)
	} else {
		v.Write(&ctx.Response)
	}
	m.verdicts.Put(v)
}

// SetHeaders sets what a client is told of its limit: Retry-After, RateLimit,
// RateLimit-Policy, X-RateLimit-* and Cache-Control of a denial. Of an admission
// it is RateLimit-Policy, and RateLimit, X-RateLimit-Remaining and
// X-RateLimit-Clear where the bucket is known exactly: estimates are not shown.
func (v *Verdict) SetHeaders(h *fasthttp.ResponseHeader) {
	if v.answer != nil {
		v.answer.SetFields(&v.values, &v.Decision, func(name denial.Name, value []byte) { h.SetCanonical(name.Bytes, value) })
	}
}

// Write answers a denied request with the headers and a problem document.
func (v *Verdict) Write(resp *fasthttp.Response) {
	resp.Header.SetStatusCode(v.answer.Status)
	resp.Header.SetContentType(denial.ProblemMediaType)
	v.SetHeaders(&resp.Header)
	resp.SetBodyRaw(v.answer.Body)
}
