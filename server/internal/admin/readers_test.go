package admin

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/guard"
)

// If there is a token for reading, everything but liveness needs a token; and that one changes nothing.
func TestReadersNeedATokenToo(t *testing.T) {
	t.Parallel()
	const read, act = "0123456789abcdef", "fedcba9876543210"
	f := fixed(func(c *Config) {
		c.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
		c.Explain, c.HashKey = echo{}, func(string) string { return "" }
		c.Operator = func() guard.Operator {
			return guard.Operator{Tokens: []guard.Token{{Name: "grafana", Secret: read, ReadOnly: true}, {Name: "alice", Secret: act}}}
		}
	})
	if err := f.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	f.ln = elsewhere{f.ln}
	for _, call := range []string{
		"GET /", "GET /v1/history", "GET /metrics", "GET /v1/info", "GET /v1/top", "GET /v1/changes", "GET /v1/explain", "GET /v1/overrides", "GET /v1/bans", "GET /v1/rules",
		"GET /debug/pprof/", "GET /debug/pprof/cmdline", "POST /v1/decide", "GET /nothing",
		"POST /v1/reset", "POST /v1/key", "POST /v1/reload", "PUT /v1/overrides", "DELETE /v1/overrides", "POST /v1/bans", "DELETE /v1/bans", "PATCH /v1/rules/r", "DELETE /v1/rules/r",
	} {
		method, path, _ := strings.Cut(call, " ")
		status := func(headers ...string) int {
			resp := ask(f, method, path, "", headers...)
			resp.Body.Close()
			if (resp.StatusCode == 401) != slices.Contains(resp.Header.Values("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: %d with %v", call, resp.StatusCode, resp.Header)
			}
			return resp.StatusCode
		}
		if got := status(); got != 401 {
			t.Errorf("%s without a token: %d", call, got)
		}
		changes := method != "GET" && path != "/v1/decide"
		if got := status("Authorization", "Bearer "+read); (got == 403) != changes || got == 401 {
			t.Errorf("%s to read: %d", call, got)
		}
		if got := status("Authorization", "Bearer "+act); got == 401 || got == 403 {
			t.Errorf("%s to change: %d", call, got)
		}
	}
	if all := ask(f, "GET", "/", "").Header.Values("WWW-Authenticate"); len(all) != 2 || !strings.HasPrefix(all[0], "Basic realm=") {
		t.Errorf("the page: %v", all)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		resp := ask(f, "GET", path, "")
		if resp.Body.Close(); resp.StatusCode != 200 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}
