// Package fasthttplimit is a middleware for fasthttp servers that limits clients by
// the rules of a limiter. Neither an admission nor a denial allocates. It links the
// limiter, package policy and fasthttp.
//
//	limited, err := fasthttplimit.New(fasthttplimit.Config{Limits: []fasthttplimit.Limit{{Rule: perIP}}})
//	fasthttp.ListenAndServe(":8080", limited.Wrap(handler))
//
// An admitted request reaches the handler unchanged. A denied one does not: the middleware
// answers it with Retry-After, RateLimit-Policy, RateLimit, X-RateLimit-* (or other
// headers: see Config.Headers) and a problem document (RFC 9457), unless OnDeny answers it
// instead.
//
// # Waiting
//
// A request under a rule with a MaxWait waits for its turn instead of being denied; see
// [fastlimit.Rule.Wait]. fasthttp does not report when a client hangs up, so such a request
// keeps its slot until its turn comes. Call [fastlimit.Limiter.StopWaiting] before
// Shutdown, which would otherwise wait for all waiting requests.
//
// # Who the client is
//
// The client is the peer of the connection or, if Config.Clients trusts that peer as
// a proxy, the address that the proxy names. A request whose client has no address is
// answered 400: if all such clients shared a key, one could have the others denied.
package fasthttplimit

import (
	"context"
	"net/netip"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/middleware/internal/limits"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

// Config configures a [Middleware].
type Config struct {
	// Limits are the rules, all of one limiter. At least one. A request is admitted if
	// every rule that applies admits it; if one denies it, the others are not charged.
	// Shadow rules count, but never deny.
	Limits []Limit

	// Clients determines the client of a request behind trusted proxies. nil means that no
	// proxy is trusted, so the peer is the client.
	Clients *policy.Identity

	// Skip returns true for requests to exempt from all limits. They are not charged. nil
	// exempts none.
	Skip func(ctx *fasthttp.RequestCtx) bool

	// DenyStatus is the status of a denial, 400 to 599. 0 means 429.
	DenyStatus int

	// Headers are the sets of header fields that [Verdict.SetHeaders] and
	// [Verdict.Write] set. Empty means [RateLimitHeaders] and [XRateLimitHeaders].
	Headers []HeaderSet

	// OnDeny answers denied requests instead of v.Write(&ctx.Response), the default.
	OnDeny func(ctx *fasthttp.RequestCtx, v *Verdict)

	// OnAllow is called for admitted requests, for example to call v.SetHeaders, which
	// tells clients their limit before they exceed it. It is called after the handler,
	// which may reset the response. Optional.
	OnAllow func(ctx *fasthttp.RequestCtx, v *Verdict)
}

// Limit is one rule and how it applies to requests.
type Limit struct {
	// Rule is the limit. Required.
	Rule *fastlimit.Rule
	// Key returns the key of a request, made by Rule; ok is false if the rule does
	// not apply to it. The key may borrow from the request. nil means the address of
	// the client, see [Client].
	Key func(ctx *fasthttp.RequestCtx) (key fastlimit.Key, ok bool)
	// Cost returns how many units a request takes. With 0 the rule does not apply,
	// with more than its burst it always denies. nil means the cost of the rule.
	Cost func(ctx *fasthttp.RequestCtx) uint64
}

// HeaderSet is a family of header fields that tell a client its limit. docs/http.md shows
// what each sends.
type HeaderSet = denial.HeaderSet

// The header sets.
const (
	RateLimitHeaders       HeaderSet = denial.RateLimit       // RateLimit-Policy and RateLimit, the current draft of the IETF
	RateLimitLegacyHeaders HeaderSet = denial.RateLimitLegacy // RateLimit-Limit, -Remaining and -Reset, its drafts up to -06
	XRateLimitHeaders      HeaderSet = denial.XRateLimit      // X-RateLimit-Remaining, -Clear and -Reset, in seconds with three decimals
	XRateLimitLimitHeaders HeaderSet = denial.XRateLimitLimit // X-RateLimit-Limit, -Remaining and -Retry-After
	NoHeaders              HeaderSet = denial.NoHeaders       // none of these; not together with others
)

// Verdict is the decision on one request. It is pooled: the function that gets it must
// not keep it. It is for one goroutine.
type Verdict struct {
	fastlimit.Decision

	// Rule is the rule that decided: if several deny, usually the one with the longest RetryAfter;
	// for an admission, the last enforced one. nil if none applied.
	Rule *fastlimit.Rule

	answer *denial.Answer
	buffer denial.Buffer
}

// Middleware limits the requests to a handler. It is safe for concurrent use.
// The zero value is not usable: call [New].
type Middleware struct {
	config   Config
	limits   *limits.Set[*fasthttp.RequestCtx]
	verdicts sync.Pool // *Verdict
}

// New returns a middleware, or an error that says which field of c is wrong.
func New(c Config) (*Middleware, error) {
	set, err := limits.New("fasthttp", c.Limits, c.DenyStatus, c.Headers, Client, c.Clients)
	if err != nil {
		return nil, err
	}
	return &Middleware{config: c, limits: set, verdicts: sync.Pool{New: func() any { return new(Verdict) }}}, nil
}

// Client returns the client of a request and how it is known, see
// [policy.Identity.Client]. It does not allocate.
func Client(ctx *fasthttp.RequestCtx, clients *policy.Identity) (netip.Addr, policy.ClientSource) {
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
		// fasthttp does not notice that a client hangs up, so no context would ever
		// end while the store is asked (TestHangUpIsCharged).
		o := m.limits.Decide(context.Background(), ctx)
		switch {
		case o.Refused != policy.NotRefused:
			ctx.Error(limits.Detail(o.Refused), fasthttp.StatusBadRequest)
		case !o.Allowed:
			m.call(c.OnDeny, ctx, &o)
		default:
			next(ctx)
			if c.OnAllow != nil {
				m.call(c.OnAllow, ctx, &o)
			}
		}
	}
}

// call passes the verdict to hook; nil means the default answer to a denial.
func (m *Middleware) call(hook func(*fasthttp.RequestCtx, *Verdict), ctx *fasthttp.RequestCtx, o *limits.Outcome) {
	v := m.verdicts.Get().(*Verdict)
	v.Decision, v.Rule, v.answer = o.Decision, o.Rule, o.Answer
	if hook != nil {
		hook(ctx, v)
	} else {
		v.Write(&ctx.Response)
	}
	m.verdicts.Put(v)
}

// SetHeaders sets the headers that tell a client its limit, those of Config.Headers. A
// denial also has Retry-After and Cache-Control. An admission has those that are true for
// every client, such as RateLimit-Policy, and the rest only if the exact bucket was asked.
// Estimates are never shown.
func (v *Verdict) SetHeaders(h *fasthttp.ResponseHeader) {
	if v.answer != nil {
		v.answer.SetFields(&v.buffer, &v.Decision, func(name denial.Name, value []byte) { h.SetCanonical(name.Bytes, value) })
	}
}

// Write answers a denied request with the headers and a problem document.
func (v *Verdict) Write(resp *fasthttp.Response) {
	resp.Header.SetStatusCode(v.answer.Status)
	resp.Header.SetContentType(v.answer.ContentType)
	v.SetHeaders(&resp.Header)
	resp.SetBodyRaw(v.answer.Body)
}
