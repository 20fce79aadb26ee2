package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// A proxy decides on the request that it passes on, whatever a trusted peer says of
// another one.
func TestProxyIgnoresOriginalRequests(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	defer app.Close()
	set := perIP()
	set.TrustedProxies = loopback()
	set.OriginalRequest = policy.OriginalXOriginal
	set.Rules[0].Match.Paths = []string{"/login"}
	s := start(t, set, func(c *Config) {
		c.Upstream = &Upstream{URLs: []string{app.URL}}
		own := policy.OriginalXOriginal
		c.Listeners[0].OriginalRequest = &own
	})
	for i := range 5 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.addr+"/login", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Original-Uri", "/elsewhere")
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 3]; resp.StatusCode != want {
			t.Errorf("request %d: %s", i, resp.Status)
		}
	}
}

// The access log has the upstream's answers, and those given in their place.
func TestProxyAccessLog(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
		fmt.Fprint(w, "hello")
	}))
	name := filepath.Join(t.TempDir(), "access.log")
	s := start(t, perIP(), func(c *Config) {
		c.Upstream = &Upstream{URLs: []string{app.URL}}
		c.AccessLog = AccessLog{File: name, Queries: true}
	})
	c := http.Client{Transport: new(http.Transport)}
	ask := func(method, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.addr+"/a?b=c", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "u")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	ask("GET", "")
	ask("POST", "a body")
	app.Close()
	ask("GET", "")
	ask("GET", "")
	c.CloseIdleConnections()
	_ = raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	want := []accessLine{
		{Method: "GET", Path: "/a?b=c", Status: 201, Bytes: 5, Decision: "allow", Rule: "per-ip", Stage: "exact", Upstream: app.URL, User_Agent: "u"},
		{Method: "POST", Path: "/a?b=c", Status: 201, Bytes: 11, Decision: "allow", Rule: "per-ip", Stage: "exact", Upstream: app.URL, User_Agent: "u", Reused: true},
		{Method: "GET", Path: "/a?b=c", Status: 502, Decision: "allow", Rule: "per-ip", Stage: "exact", User_Agent: "u", Reused: true},
		{Method: "GET", Path: "/a?b=c", Status: 429, Decision: "deny", Rule: "per-ip", Stage: "table", User_Agent: "u", Reused: true},
		{Status: 400, Decision: "refused", Reason: "malformed"},
	}
	got := readAccessLog(t, name)
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %+v", len(got), len(want), got)
	}
	for i := range got {
		g, w := got[i], want[i]
		w.Time, w.Duration, w.Client, w.Host = g.Time, g.Duration, "127.0.0.1", g.Host
		if w.Status >= 400 {
			w.Bytes = max(g.Bytes, 1) // there is a body
		}
		if g != w {
			t.Errorf("line %d: %+v, want %+v", i, g, w)
		}
	}
}
