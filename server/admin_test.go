package server

import (
	"encoding/json"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/metrics"
	"net/http"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestAdminEndpoints(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for _, c := range []struct {
		method, path string
		status       int
		body         string // a part of it
	}{
		{"GET", "/livez", 200, "ok"},
		{"GET", "/readyz", 200, "ok"},
		{"HEAD", "/readyz", 200, ""},
		{"GET", "/metrics", 200, "fastlimit_build_info{goversion="},
		{"GET", "/metrics", 200, "go_goroutines"},
		{"GET", "/metrics", 200, "process_open_fds"},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/cmdline", 200, ""},
		{"POST", "/v1/reload", 501, "restart"},
		{"GET", "/v1/reload", 405, ""},
		{"GET", "/v1/decide", 405, ""},
		{"POST", "/livez", 405, ""},
		{"DELETE", "/v1/info", 405, ""},
		{"GET", "/", 404, ""},
		{"GET", "/nonsense", 404, ""},
	} {
		resp := send(t, c.method, "http://"+s.admin+c.path, "")
		body := string(readAll(t, resp))
		if resp.StatusCode != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s %s: got %d %.200q, want %d with %q", c.method, c.path, resp.StatusCode, body, c.status, c.body)
		}
		if c.status == 405 && resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow", c.method, c.path)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Strict = false
	set.Rules[0].Limit.Burst = 20
	s := start(t, set, func(c *Config) { c.Listeners[0].DenyStatus = 403 })
	resp := get(t, "http://"+s.admin+"/v1/info")
	var info admin.Info
	if err := json.Unmarshal(readAll(t, resp), &info); err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("content type %q", resp.Header.Get("Content-Type"))
	}
	if len(info.Listen) != 1 || info.Listen[0] != (admin.Listener{Address: s.addr, DenyStatus: 403}) || info.Admin != s.admin {
		t.Errorf("addresses %+v, admin %s", info.Listen, info.Admin)
	}
	if info.Version != "test" || info.Memory.Bytes <= 0 || info.UptimeSeconds <= 0 || len(info.Rules) != 1 {
		t.Fatalf("%+v", info)
	}
	r := info.Rules[0]
	if r.Name != "per-ip" || r.Rate != "1/s" || r.Burst != 20 || r.Mode != "enforce" || r.EscalateAt != 0.5 || r.BurstBound != 31 {
		t.Errorf("%+v", r)
	}
}

func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for range 5 {
		get(t, "http://"+s.addr+"/")
	}
	raw(t, s.addr, "PRI * HTTP/2.0\r\n\r\n")
	want := `
# HELP fastlimit_bad_requests_total Requests refused before they were counted for a client.
# TYPE fastlimit_bad_requests_total counter
fastlimit_bad_requests_total{reason="batch"} 0
fastlimit_bad_requests_total{reason="body_size"} 0
fastlimit_bad_requests_total{reason="framing"} 0
fastlimit_bad_requests_total{reason="header_size"} 0
fastlimit_bad_requests_total{reason="host"} 0
fastlimit_bad_requests_total{reason="malformed"} 0
fastlimit_bad_requests_total{reason="panic"} 0
fastlimit_bad_requests_total{reason="peer"} 0
fastlimit_bad_requests_total{reason="repeated"} 0
fastlimit_bad_requests_total{reason="target"} 0
fastlimit_bad_requests_total{reason="timeout"} 0
fastlimit_bad_requests_total{reason="truncated"} 0
fastlimit_bad_requests_total{reason="unnamed"} 0
fastlimit_bad_requests_total{reason="version"} 1
# HELP fastlimit_decisions_total Decisions by rule and the stage that made them. The rule is empty at stage list.
# TYPE fastlimit_decisions_total counter
fastlimit_decisions_total{decision="allow",mode="enforce",rule="",stage="list"} 0
fastlimit_decisions_total{decision="deny",mode="enforce",rule="",stage="list"} 0
fastlimit_decisions_total{decision="allow",mode="enforce",rule="per-ip",stage="exact"} 3
fastlimit_decisions_total{decision="deny",mode="enforce",rule="per-ip",stage="exact"} 0
fastlimit_decisions_total{decision="allow",mode="enforce",rule="per-ip",stage="fallback"} 0
fastlimit_decisions_total{decision="deny",mode="enforce",rule="per-ip",stage="fallback"} 0
fastlimit_decisions_total{decision="allow",mode="enforce",rule="per-ip",stage="filter"} 0
fastlimit_decisions_total{decision="deny",mode="enforce",rule="per-ip",stage="filter"} 0
fastlimit_decisions_total{decision="allow",mode="enforce",rule="per-ip",stage="sketch"} 0
fastlimit_decisions_total{decision="deny",mode="enforce",rule="per-ip",stage="sketch"} 0
fastlimit_decisions_total{decision="allow",mode="enforce",rule="per-ip",stage="table"} 0
fastlimit_decisions_total{decision="deny",mode="enforce",rule="per-ip",stage="table"} 2
# HELP fastlimit_exact_evictions_total Active exact buckets that were evicted.
# TYPE fastlimit_exact_evictions_total counter
fastlimit_exact_evictions_total 0
# HELP fastlimit_exact_forgiven_units_total Units in active exact buckets that were evicted: at most this much was admitted beyond the limits.
# TYPE fastlimit_exact_forgiven_units_total counter
fastlimit_exact_forgiven_units_total 0
# HELP fastlimit_requests_total Requests decided, by decision.
# TYPE fastlimit_requests_total counter
fastlimit_requests_total{decision="allow"} 3
fastlimit_requests_total{decision="deny"} 2
`
	if err := testutil.GatherAndCompare(metrics.Registry(s.stats, nil), strings.NewReader(want),
		"fastlimit_bad_requests_total", "fastlimit_decisions_total", "fastlimit_exact_evictions_total", "fastlimit_exact_forgiven_units_total", "fastlimit_requests_total"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(metrics.Registry(s.stats, nil))
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	for name, want := range map[string]int{"fastlimit_connections_rejected_total": 2, "fastlimit_connections_dismissed_total": 4} {
		if n, err := testutil.GatherAndCount(metrics.Registry(s.stats, nil), name); n != want || err != nil {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
	}
	for _, name := range []string{
		"fastlimit_first_seen_clients", "fastlimit_sketch_load", "fastlimit_table_live",
		"fastlimit_untrusted_proxy_requests_total", "fastlimit_unnamed_requests_total", "fastlimit_connections",
		"fastlimit_accept_errors_total", "fastlimit_build_info",
	} {
		if n, err := testutil.GatherAndCount(metrics.Registry(s.stats, nil), name); n != 1 || err != nil {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
	}
}

// A page of another site, and one whose name is rebound to loopback.
func TestAdminRefusesOtherSites(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	const good = `{"requests":[{"rule":"per-ip","key":["192.0.2.7"]}]}`
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"curl", []string{"Content-Type", "application/json"}, 200},
		{"with a charset", []string{"Content-Type", "application/json; charset=utf-8"}, 200},
		{"own page", []string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin", "Origin", "http://" + s.admin}, 200},
		{"no content type", nil, 415},
		{"a form", []string{"Content-Type", "text/plain"}, 415},
		{"another site", []string{"Content-Type", "application/json", "Sec-Fetch-Site", "cross-site"}, 403},
		{"same site, other origin", []string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-site"}, 403},
		{"another origin", []string{"Content-Type", "application/json", "Origin", "http://evil.example"}, 403},
		{"a sandboxed origin", []string{"Content-Type", "application/json", "Origin", "null"}, 403},
		{"a rebound name", []string{"Content-Type", "application/json", "Host", "evil.example:8081"}, 421},
		{"localhost", []string{"Content-Type", "application/json", "Host", "localhost:8081"}, 200},
		{"IPv6", []string{"Content-Type", "application/json", "Host", "[::1]:8081"}, 200},
	} {
		resp := send(t, http.MethodPost, "http://"+s.admin+"/v1/decide", good, c.headers...)
		if resp.StatusCode != c.status {
			t.Errorf("%s: got %d, want %d: %s", c.name, resp.StatusCode, c.status, readAll(t, resp))
		}
	}
	if resp := get(t, "http://"+s.admin+"/v1/info", "Host", "evil.example"); resp.StatusCode != 421 {
		t.Errorf("a rebound name could read: %d", resp.StatusCode)
	}
	if resp := send(t, http.MethodPost, "http://"+s.admin+"/v1/reload", "", "Origin", "http://evil.example"); resp.StatusCode != 403 {
		t.Errorf("another origin could reload: %d", resp.StatusCode)
	}
}

// Also what only reads: a page could have profiles made, or read whatever a
// browser lets it.
func TestAdminRefusesReadersOfOtherSites(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.TopTalkers = talkers{} })
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/heap", "/v1/top", "/v1/info", "/metrics", "/readyz", "/livez", "/"} {
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
			{"Sec-Fetch-Site", "nonsense"},
			{"Origin", "http://evil.example"},
			{"Origin", "null"},
			{"Origin", "http://" + s.admin + ".evil.example"},
		} {
			resp := get(t, "http://"+s.admin+path, headers...)
			if body := readAll(t, resp); resp.StatusCode != 403 || !json.Valid(body) || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s with %q: %d %.100s", path, headers, resp.StatusCode, body)
			}
		}
	}
	for _, path := range []string{"/v1/top", "/v1/info", "/metrics", "/livez", "/debug/pprof/"} {
		for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin", "Origin", "http://" + s.admin}} {
			if resp := get(t, "http://"+s.admin+path, headers...); resp.StatusCode != 200 {
				t.Errorf("%s with %q: %d", path, headers, resp.StatusCode)
			}
		}
	}
}

func TestAdminIsNotOnTraffic(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Mode = fastlimit.Shadow
	s := start(t, set)
	for _, path := range []string{"/metrics", "/v1/info", "/debug/pprof/", "/v1/decide", "/livez"} {
		if resp := get(t, "http://"+s.addr+path); resp.StatusCode != 200 || resp.ContentLength != 0 {
			t.Errorf("%s: %d with %d bytes; want a decision", path, resp.StatusCode, resp.ContentLength)
		}
	}
}
