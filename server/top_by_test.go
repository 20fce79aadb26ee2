package server

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/admin"
)

// groups is what the load is made of: how many requests, and of these denied ones, each group
// has, of all.
func (r *running) groups(t *testing.T, by string, all int) (got map[string]string) {
	t.Helper()
	resp := get(t, "http://"+r.admin+"/v1/top?by="+by)
	var top admin.TopBy
	if err := json.Unmarshal(readAll(t, resp), &top); err != nil || top.By != by {
		t.Fatalf("%v, by %q", err, top.By)
	}
	got = map[string]string{}
	for _, g := range top.Groups {
		if g.Error != 0 {
			t.Errorf("%s is off by %v, though nothing is left out", g.Group, g.Error)
		}
		of := float64(all) / top.Requests
		got[g.Group] = fmt.Sprintf("%.0f-%.0f", math.Round(g.Rate*of), math.Round(g.Denied*of))
	}
	return got
}

// Requests are grouped by where they come from, what they ask for and how they are answered, whatever the
// rules, and by the path that rules see.
func TestTopBy(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies, set.Rules[0].Match.Paths = loopback(), []string{"/login"}
	want := map[string]string{
		"net":    "map[127.0.0.1/32:1-0 192.0.2.7/32:20-17 198.51.0.0/16:200-0]",
		"path":   "map[/:1-0 /login:20-17 /search/*:200-0]",
		"method": "map[GET:221-17]",
		"status": "map[200:203-0 400:1-0 429:17-17]",
	}
	got := map[string]string{}
	var agents map[string]string
	testkit.Eventually(t, "all is asked before the first counts are dropped", func() bool {
		begin := time.Now()
		s := start(t, set)
		for i := range 20 {
			target := []string{"/login?user=1", "/%6Cogin", "/./login", "//login"}[i%4]
			get(t, "http://"+s.addr+target, "X-Forwarded-For", "192.0.2.7", "User-Agent", "flood").Body.Close()
		}
		for i := range 200 {
			get(t, fmt.Sprintf("http://%s/search/%d", s.addr, i), "X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", i%100, i/100), "User-Agent", "").Body.Close()
		}
		_ = raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
		for by := range want {
			got[by] = fmt.Sprint(s.groups(t, by, 221))
		}
		agents = s.groups(t, "agent", 221)
		return time.Since(begin) < marks.Every
	})
	for by := range want {
		if got[by] != want[by] {
			t.Errorf("by %s: %s, want %s", by, got[by], want[by])
		}
	}
	if agents["flood"] != "20-17" {
		t.Errorf("by agent: %v, want 20 of flood", agents)
	}
}

// What an upstream answers is known later than the rest.
func TestTopByOfAProxy(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	defer app.Close()
	set := perIP()
	set.Rules[0].Limit.Mode = fastlimit.Shadow
	s := start(t, set, func(c *Config) { c.Upstream = &Upstream{URLs: []string{app.URL}} })
	for _, path := range []string{"/gone", "/gone", "/here"} {
		send(t, "GET", "http://"+s.addr+path, "").Body.Close()
		send(t, "POST", "http://"+s.addr+path, "a body").Body.Close()
	}
	eventually(t, func() bool { return fmt.Sprint(s.groups(t, "status", 6)) == "map[200:2-0 410:4-0]" })
	if got := fmt.Sprint(s.groups(t, "path", 6), s.groups(t, "method", 6)); got != "map[/gone:4-0 /here:2-0] map[GET:3-0 POST:3-0]" {
		t.Error(got)
	}
}

// HTTP/2 and batches are requests too.
func TestTopByOfBatches(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.DecideAPI = true })
	send(t, "POST", "http://"+s.addr+"/v1/decide", `{"requests":[]}`, "Content-Type", "application/json").Body.Close()
	eventually(t, func() bool { return fmt.Sprint(s.groups(t, "path", 1)) == "map[/v1/decide:1-0]" })
}

func TestTopByOfNothing(t *testing.T) {
	t.Parallel()
	s := start(t, policy.Settings{Rules: perIP().Rules})
	if body := string(readAll(t, get(t, "http://"+s.admin+"/v1/top?by=net"))); !strings.HasPrefix(body, `{"by":"net","requests":0,"groups":[],"totals":{`) {
		t.Error(body)
	}
	for query, want := range map[string]string{
		"by=asn":            "by=asn: want one of net, path, method, agent, status",
		"by=":               "want one of net",
		"by=net&sort=rate":  "leave out sort",
		"by=net&rule=per-a": "leave out sort",
		"by=net&n=0":        "n=0",
	} {
		resp := get(t, "http://"+s.admin+"/v1/top?"+query)
		if body := string(readAll(t, resp)); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", query, resp.StatusCode, body, want)
		}
	}
}
