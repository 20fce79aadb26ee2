package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/valyala/fasthttp"
)

func middlewareRule(t testing.TB, mode fastlimit.Mode) *fastlimit.Rule {
	t.Helper()
	lim, err := fastlimit.New(fastlimit.Config{Memory: fastlimit.MinMemory, Rules: []fastlimit.RuleConfig{{
		Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 2, Strict: true, Mode: mode,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return lim.Rules()[0]
}

// through sends a request of a peer and returns the status and RateLimit.
func through(t *testing.T, c MiddlewareConfig) func(net.Addr) (int, string) {
	t.Helper()
	m, err := NewMiddleware(c)
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

func TestMiddleware(t *testing.T) {
	t.Parallel()
	ask := through(t, MiddlewareConfig{Rule: middlewareRule(t, fastlimit.Enforce)})
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

func TestMiddlewareKeyModeAndStatus(t *testing.T) {
	t.Parallel()
	rule := middlewareRule(t, fastlimit.Enforce)
	applies := true
	ask := through(t, MiddlewareConfig{Rule: rule, DenyStatus: 503, Key: func(ctx *fasthttp.RequestCtx) (fastlimit.Key, bool) {
		return rule.BytesKey(ctx.Host()), applies
	}})
	ask(nil)
	ask(nil)
	if status, _ := ask(nil); status != 503 {
		t.Errorf("got %d", status)
	}
	applies = false
	if status, _ := ask(nil); status != 204 {
		t.Errorf("the rule applied: %d", status)
	}
	ask = through(t, MiddlewareConfig{Rule: middlewareRule(t, fastlimit.Shadow)})
	for range 4 {
		if status, _ := ask(tcpAny); status != 204 {
			t.Errorf("a shadow rule denied: %d", status)
		}
	}
}

var tcpAny = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9)}

func TestNewMiddlewareNamesTheMistake(t *testing.T) {
	t.Parallel()
	if _, err := NewMiddleware(MiddlewareConfig{}); err == nil || !strings.Contains(err.Error(), "Rule") {
		t.Errorf("got %v", err)
	}
	if _, err := NewMiddleware(MiddlewareConfig{Rule: middlewareRule(t, 0), DenyStatus: 302}); err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("got %v", err)
	}
}
