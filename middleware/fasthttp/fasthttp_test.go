package fasthttplimit

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
)

func middlewareRule(t testing.TB, mode fastlimit.Mode) *fastlimit.Rule {
	t.Helper()
	lim, err := fastlimit.New(fastlimit.Config{Memory: limit.MinMemory, Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 2, Strict: true, Mode: mode,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return lim.Rules()[0]
}

func one(r *fastlimit.Rule) Config { return Config{Limits: []Limit{{Rule: r}}} }

func newContext(peer net.Addr, headers ...string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	var req fasthttp.Request
	req.Header.SetHost("example.com")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	ctx.Init(&req, peer, nil)
	return ctx
}

// through sends a request of a peer and returns the status and RateLimit.
func through(t *testing.T, c Config) func(net.Addr) (int, string) {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusNoContent) })
	return func(peer net.Addr) (int, string) {
		ctx := newContext(peer)
		h(ctx)
		return ctx.Response.StatusCode(), string(ctx.Response.Header.PeekCanonical([]byte("RateLimit")))
	}
}

func TestDeniesByPeer(t *testing.T) {
	t.Parallel()
	ask := through(t, one(middlewareRule(t, fastlimit.Enforce)))
	a, b := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)}
	for range 2 {
		if status, limit := ask(a); status != 204 || limit != "" {
			t.Fatalf("%d %s", status, limit)
		}
	}
	if status, limit := ask(a); status != 429 || limit != `"per-ip";r=0;t=60` {
		t.Errorf("%d %s", status, limit)
	}
	if status, _ := ask(b); status != 204 {
		t.Errorf("another client got %d", status)
	}
	for _, peer := range []net.Addr{nil, &net.UnixAddr{}, &net.TCPAddr{IP: net.IPv4zero}} {
		if status, _ := ask(peer); status != 400 {
			t.Errorf("%v got %d", peer, status)
		}
	}
}

func TestKeyModeAndStatus(t *testing.T) {
	t.Parallel()
	rule := middlewareRule(t, fastlimit.Enforce)
	applies := true
	ask := through(t, Config{DenyStatus: 503, Limits: []Limit{{Rule: rule, Key: func(ctx *fasthttp.RequestCtx) (fastlimit.Key, bool) {
		return rule.BytesKey(ctx.Host()), applies
	}}}})
	ask(nil)
	ask(nil)
	if status, _ := ask(nil); status != 503 {
		t.Errorf("got %d", status)
	}
	applies = false
	if status, _ := ask(nil); status != 204 {
		t.Errorf("the rule applied: %d", status)
	}
	ask = through(t, one(middlewareRule(t, fastlimit.Shadow)))
	for range 4 {
		if status, _ := ask(tcpAny); status != 204 {
			t.Errorf("a shadow rule denied: %d", status)
		}
	}
}

var tcpAny = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9)}

func TestNewNamesTheMistake(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Rule") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Config{Limits: one(middlewareRule(t, 0)).Limits, DenyStatus: 302}); err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("got %v", err)
	}
}

func TestLinksOneServer(t *testing.T) {
	t.Parallel()
	middlewaretest.LinksNone(t, "prometheus", "go-redis", "memberlist")
}

// A request that one rule denies takes nothing of the others.
func TestSeveralRules(t *testing.T) {
	t.Parallel()
	rules := middlewaretest.Rules(t, 10, 3)
	m, err := New(Config{Limits: []Limit{
		{Rule: rules[0]},
		{Rule: rules[1], Cost: func(ctx *fasthttp.RequestCtx) uint64 { return uint64(len(ctx.Request.Header.Peek("X-Items"))) }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(func(*fasthttp.RequestCtx) {})
	for i, c := range []struct {
		items  string
		status int
		left   [2]int64
	}{{"", 200, [2]int64{9, 3}}, {"xx", 200, [2]int64{8, 1}}, {"xx", 429, [2]int64{8, 1}}, {"x", 200, [2]int64{7, 0}}} {
		ctx := newContext(tcpAny, "X-Items", c.items)
		h(ctx)
		left := [2]int64{middlewaretest.Left(rules[0], "192.0.2.9"), middlewaretest.Left(rules[1], "192.0.2.9")}
		if status := ctx.Response.StatusCode(); status != c.status || left != c.left {
			t.Errorf("request %d: %d, %v left, want %d, %v", i, status, left, c.status, c.left)
		}
	}
}

func TestClientsBehindProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unnamed       policy.UnnamedAction
		first, second string // X-Forwarded-For
		status        int    // of the second request
	}{
		{0, "192.0.2.7", "1.1.1.1, 192.0.2.7", 429},
		{0, "192.0.2.7", "192.0.2.8", 200},
		{policy.UnnamedPeer, "unknown", "", 429},
		{policy.UnnamedSkip, "unknown", "", 200},
		{policy.UnnamedDeny, "unknown", "", 400},
	} {
		config := one(middlewaretest.Rules(t, 1)[0])
		config.Clients = middlewaretest.Clients(t, "192.0.2.9/32", c.unnamed)
		m, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		h := m.Wrap(func(*fasthttp.RequestCtx) {})
		h(newContext(tcpAny, "X-Forwarded-For", c.first))
		ctx := newContext(tcpAny, "X-Forwarded-For", c.second)
		if h(ctx); ctx.Response.StatusCode() != c.status {
			t.Errorf("%+v: got %d", c, ctx.Response.StatusCode())
		}
	}
}

func TestSkipOnDenyAndOnAllow(t *testing.T) {
	t.Parallel()
	config := one(middlewaretest.Rules(t, 1)[0])
	config.Skip = func(ctx *fasthttp.RequestCtx) bool { return len(ctx.Request.Header.Peek("X-Health")) > 0 }
	config.OnAllow = func(ctx *fasthttp.RequestCtx, v *Verdict) { v.SetHeaders(&ctx.Response.Header) }
	config.OnDeny = func(ctx *fasthttp.RequestCtx, v *Verdict) {
		v.Write(&ctx.Response)
		ctx.Response.SetBodyString(v.Rule.Name() + " denies")
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(func(ctx *fasthttp.RequestCtx) { ctx.Error("not found", 404) }) // which resets the response
	ask := func(headers ...string) (status int, limit, retry, body string) {
		ctx := newContext(tcpAny, headers...)
		h(ctx)
		r := &ctx.Response
		return r.StatusCode(), string(r.Header.PeekCanonical([]byte("RateLimit"))), string(r.Header.Peek("Retry-After")), string(r.Body())
	}
	for i, c := range []struct {
		header             string
		status             int
		limit, retry, body string
	}{
		{"X-Health", 404, "", "", "not found"},
		{"X-Health", 404, "", "", "not found"},
		{"X-Other", 404, `"a";r=0`, "", "not found"},
		{"X-Other", 429, `"a";r=0;t=3600`, "3600", "a denies"},
	} {
		if status, limit, retry, body := ask(c.header, "1"); status != c.status || limit != c.limit || retry != c.retry || body != c.body {
			t.Errorf("request %d: %d %s %s %s", i, status, limit, retry, body)
		}
	}
}

// Headers are chosen, and checked, as those of a listener of the server are.
func TestHeaderSets(t *testing.T) {
	t.Parallel()
	for want, sets := range map[string][]HeaderSet{
		"RateLimit-Policy Retry-After X-RateLimit-Reset Cache-Control RateLimit X-RateLimit-Remaining X-RateLimit-Clear": nil,
		"Retry-After Cache-Control RateLimit-Limit RateLimit-Remaining RateLimit-Reset":                                  {RateLimitLegacyHeaders},
		"Retry-After X-RateLimit-Reset Cache-Control X-RateLimit-Remaining X-RateLimit-Clear":                            {XRateLimitHeaders},
		"Retry-After Cache-Control": {NoHeaders},
	} {
		config := one(middlewareRule(t, fastlimit.Enforce))
		config.Headers = sets
		m, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		var ctx *fasthttp.RequestCtx
		for range 3 {
			ctx = newContext(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
			m.Wrap(func(*fasthttp.RequestCtx) {})(ctx)
		}
		var names []string
		for name := range ctx.Response.Header.All() {
			if n := string(name); n != "Content-Type" && n != "Content-Length" {
				names = append(names, n)
			}
		}
		if got := strings.Join(names, " "); got != want || ctx.Response.StatusCode() != 429 {
			t.Errorf("%v: %d, %s, want %s", sets, ctx.Response.StatusCode(), got, want)
		}
	}
	config := one(middlewareRule(t, fastlimit.Enforce))
	config.Headers = []HeaderSet{NoHeaders, NoHeaders}
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "middleware/fasthttp: Headers[0]: none is listed with others") {
		t.Errorf("%v", err)
	}
}
