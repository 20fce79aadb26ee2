package nethttp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

func newRule(t testing.TB, change func(*fastlimit.RuleConfig)) *fastlimit.Rule {
	t.Helper()
	c := fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 2, Strict: true}
	if change != nil {
		change(&c)
	}
	lim, err := fastlimit.New(fastlimit.Config{Memory: limit.MinMemory, Rules: []fastlimit.RuleConfig{c}})
	if err != nil {
		t.Fatal(err)
	}
	return lim.Rules()[0]
}

func wrap(t testing.TB, c Config) http.Handler {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
}

func one(r *fastlimit.Rule) Config { return Config{Limits: []Limit{{Rule: r}}} }

func ask(h http.Handler, peer string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestDeniesByPeer(t *testing.T) {
	t.Parallel()
	h := wrap(t, one(newRule(t, nil)))
	for range 2 {
		if w := ask(h, "192.0.2.1:1"); w.Code != 204 || w.Header().Get("RateLimit") != "" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
	}
	w := ask(h, "192.0.2.1:2", "X-Forwarded-For", "192.0.2.9") // another port, a spoofed header
	if w.Code != 429 {
		t.Fatalf("got %d", w.Code)
	}
	for name, want := range map[string]string{
		"Retry-After": "60", "RateLimit-Policy": `"per-ip";q=2;w=120`, "RateLimit": `"per-ip";r=0;t=60`,
		"X-RateLimit-Remaining": "0", "Content-Type": "application/problem+json", "Cache-Control": "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, err := httpsfv.UnmarshalList(w.Header().Values("RateLimit")); err != nil {
		t.Error(err)
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Errorf("body %q", w.Body)
	}
	for _, other := range []string{"192.0.2.2:1", "[2001:db8::1]:1"} {
		if w := ask(h, other); w.Code != 204 {
			t.Errorf("%s got %d", other, w.Code)
		}
	}
	if w := ask(h, "[::ffff:192.0.2.1]:1"); w.Code != 429 {
		t.Errorf("the mapped form of the address got %d", w.Code)
	}
}

func TestPeersWithoutAnAddressAreRefused(t *testing.T) {
	t.Parallel()
	h := wrap(t, one(newRule(t, nil)))
	for _, peer := range []string{"", "@", "0.0.0.0:1", "[::]:1", "pipe", "[::ffff:0.0.0.0]:1"} {
		if w := ask(h, peer); w.Code != 400 {
			t.Errorf("%q got %d", peer, w.Code)
		}
	}
}

func TestOwnKeyAndStatus(t *testing.T) {
	t.Parallel()
	rule := newRule(t, func(c *fastlimit.RuleConfig) { c.Burst = 1 })
	h := wrap(t, Config{DenyStatus: 403, Limits: []Limit{{Rule: rule, Key: func(r *http.Request) (fastlimit.Key, bool) {
		k := r.Header.Get("X-Api-Key")
		return rule.BytesKey([]byte(k)), k != ""
	}}}})
	ask(h, "192.0.2.1:1", "X-Api-Key", "a")
	if w := ask(h, "192.0.2.2:1", "X-Api-Key", "a"); w.Code != 403 {
		t.Errorf("got %d", w.Code)
	}
	for range 3 {
		if w := ask(h, "192.0.2.1:1"); w.Code != 204 {
			t.Errorf("the rule applied without a key: %d", w.Code)
		}
	}
}

func TestShadowDeniesNobody(t *testing.T) {
	t.Parallel()
	rule := newRule(t, func(c *fastlimit.RuleConfig) { c.Mode = fastlimit.Shadow })
	h := wrap(t, one(rule))
	for range 5 {
		if w := ask(h, "192.0.2.1:1"); w.Code != 204 {
			t.Fatalf("got %d", w.Code)
		}
	}
	if s := rule.Stats(); s.Denied[fastlimit.StageTable]+s.Denied[fastlimit.StageExact] != 3 {
		t.Errorf("%+v", s)
	}
}

func TestNewNamesTheMistake(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Rule") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Config{Limits: one(newRule(t, nil)).Limits, DenyStatus: 200}); err == nil || !strings.Contains(err.Error(), "200") {
		t.Errorf("got %v", err)
	}
}

// Whoever serves with net/http should not have to link another server.
func TestLinksNoOtherServer(t *testing.T) {
	t.Parallel()
	middlewaretest.LinksNone(t, "fasthttp", "prometheus", "go-redis", "memberlist")
}

// A request that one rule denies takes nothing of the others, whatever the order.
func TestSeveralRules(t *testing.T) {
	t.Parallel()
	rules := middlewaretest.Rules(t, 10, 2, 1)
	h := wrap(t, Config{Limits: []Limit{
		{Rule: rules[0]},
		{Rule: rules[1], Cost: func(r *http.Request) uint64 { return uint64(len(r.Header.Values("X-Item"))) }},
		{Rule: rules[2], Key: func(r *http.Request) (fastlimit.Key, bool) {
			k := r.Header.Get("X-Api-Key")
			return rules[2].BytesKey([]byte(k)), k != ""
		}},
	}})
	const client = "192.0.2.1:1"
	for i, c := range []struct {
		headers []string
		status  int
		left    [2]int64 // of the first two rules
	}{
		{nil, 204, [2]int64{9, 2}}, // no items: the second does not apply
		{[]string{"X-Item", "a", "X-Api-Key", "k"}, 204, [2]int64{8, 1}},
		{[]string{"X-Item", "a", "X-Api-Key", "k"}, 429, [2]int64{8, 1}}, // the third denies
		{[]string{"X-Item", "a"}, 204, [2]int64{7, 0}},
		{[]string{"X-Item", "a"}, 429, [2]int64{7, 0}}, // the second
		{nil, 204, [2]int64{6, 0}},
	} {
		if w := ask(h, client, c.headers...); w.Code != c.status {
			t.Errorf("request %d got %d, want %d", i, w.Code, c.status)
		}
		for j, want := range c.left {
			if got := middlewaretest.Left(rules[j], "192.0.2.1"); got != want {
				t.Errorf("request %d: rule %d has %d left, want %d", i, j, got, want)
			}
		}
	}
}

func TestClientsBehindProxies(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1:1"
	for _, c := range []struct {
		name          string
		unnamed       policy.UnnamedAction
		first, second string // X-Forwarded-For
		status        int    // of the second request
	}{
		{"same client", 0, "192.0.2.7", "1.1.1.1, 192.0.2.7", 429},
		{"another client", 0, "192.0.2.7", "192.0.2.8", 204},
		{"unnamed is the proxy", policy.UnnamedPeer, "unknown", "", 429},
		{"unnamed is not limited", policy.UnnamedSkip, "unknown", "", 204},
		{"unnamed is refused", policy.UnnamedDeny, "unknown", "", 400},
	} {
		clients := middlewaretest.Clients(t, "10.0.0.0/8", c.unnamed)
		config := one(middlewaretest.Rules(t, 1)[0])
		config.Clients = clients
		h := wrap(t, config)
		ask(h, proxy, "X-Forwarded-For", c.first)
		if w := ask(h, proxy, "X-Forwarded-For", c.second); w.Code != c.status {
			t.Errorf("%s: %d", c.name, w.Code)
		}
		// A stranger's header counts for nothing.
		if w := ask(h, "198.51.100.9:1", "X-Forwarded-For", c.first); w.Code != 204 {
			t.Errorf("%s: a stranger got %d", c.name, w.Code)
		}
	}
}

func TestSkipOnDenyAndOnAllow(t *testing.T) {
	t.Parallel()
	config := one(middlewaretest.Rules(t, 1)[0])
	config.Skip = func(r *http.Request) bool { return r.Header.Get("X-Health") != "" }
	config.OnAllow = func(w http.ResponseWriter, _ *http.Request, v *Verdict) { v.SetHeaders(w.Header()) }
	config.OnDeny = func(w http.ResponseWriter, _ *http.Request, v *Verdict) {
		v.SetHeaders(w.Header())
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "%s: again in %v", v.Rule.Name(), v.RetryAfter.Round(time.Hour))
	}
	h := wrap(t, config)
	for range 2 {
		if w := ask(h, "192.0.2.1:1", "X-Health", "1"); w.Code != 204 || len(w.Header()) != 0 {
			t.Errorf("skipped: %d %v", w.Code, w.Header())
		}
	}
	w := ask(h, "192.0.2.1:1")
	if got := w.Header(); w.Code != 204 || got.Get("RateLimit") != `"a";r=0` || got.Get("RateLimit-Policy") != `"a";q=1;w=3600` ||
		got.Get("X-RateLimit-Remaining") != "0" || got.Get("Retry-After") != "" {
		t.Errorf("admitted: %d %v", w.Code, got)
	}
	w = ask(h, "192.0.2.1:1")
	if got := w.Header(); w.Code != 503 || w.Body.String() != "a: again in 1h0m0s" || got.Get("Retry-After") != "3600" || got.Get("Content-Type") == "application/problem+json" {
		t.Errorf("denied: %d %q %v", w.Code, w.Body, got)
	}
}

// Headers are chosen, and checked, as those of a listener of the server are.
func TestHeaderSets(t *testing.T) {
	t.Parallel()
	for want, sets := range map[string][]HeaderSet{
		"Cache-Control, Ratelimit, Ratelimit-Policy, Retry-After, X-Ratelimit-Clear, X-Ratelimit-Remaining, X-Ratelimit-Reset":       nil,
		"Cache-Control, Ratelimit-Limit, Ratelimit-Remaining, Ratelimit-Reset, Retry-After":                                          {RateLimitLegacyHeaders},
		"Cache-Control, Ratelimit, Ratelimit-Policy, Retry-After, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Retry-After": {XRateLimitLimitHeaders, RateLimitHeaders},
		"Cache-Control, Retry-After": {NoHeaders},
	} {
		config := one(middlewaretest.Rules(t, 1)[0])
		config.Headers = sets
		h := wrap(t, config)
		ask(h, "192.0.2.1:1")
		w := ask(h, "192.0.2.1:1")
		w.Header().Del("Content-Type")
		if got := strings.Join(slices.Sorted(maps.Keys(w.Header())), ", "); got != want || w.Code != 429 {
			t.Errorf("%v: %d, %s, want %s", sets, w.Code, got, want)
		}
	}
	config := one(middlewaretest.Rules(t, 1)[0])
	config.Headers = []HeaderSet{RateLimitHeaders, NoHeaders}
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "middleware/nethttp: Headers[1]: none is listed with others") {
		t.Errorf("%v", err)
	}
}
