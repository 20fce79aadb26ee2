package nethttp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/fastlimit/fastlimit"
)

func newRule(t testing.TB, change func(*fastlimit.RuleConfig)) *fastlimit.Rule {
	t.Helper()
	c := fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Minute}, Burst: 2, Strict: true}
	if change != nil {
		change(&c)
	}
	lim, err := fastlimit.New(fastlimit.Config{Memory: fastlimit.MinMemory, Rules: []fastlimit.RuleConfig{c}})
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
	h := wrap(t, Config{Rule: newRule(t, nil)})
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
	h := wrap(t, Config{Rule: newRule(t, nil)})
	for _, peer := range []string{"", "@", "0.0.0.0:1", "[::]:1", "pipe", "[::ffff:0.0.0.0]:1"} {
		if w := ask(h, peer); w.Code != 400 {
			t.Errorf("%q got %d", peer, w.Code)
		}
	}
}

func TestOwnKeyAndStatus(t *testing.T) {
	t.Parallel()
	rule := newRule(t, func(c *fastlimit.RuleConfig) { c.Burst = 1 })
	h := wrap(t, Config{Rule: rule, DenyStatus: 403, Key: func(r *http.Request) (fastlimit.Key, bool) {
		k := r.Header.Get("X-Api-Key")
		return rule.BytesKey([]byte(k)), k != ""
	}})
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
	h := wrap(t, Config{Rule: rule})
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
	if _, err := New(Config{Rule: newRule(t, nil), DenyStatus: 200}); err == nil || !strings.Contains(err.Error(), "200") {
		t.Errorf("got %v", err)
	}
}

// Whoever serves with net/http should not have to link another server.
func TestLinksNoOtherServer(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"fasthttp", "prometheus", "go-redis", "memberlist"} {
		if strings.Contains(string(out), bad) {
			t.Errorf("the package links %s", bad)
		}
	}
}
