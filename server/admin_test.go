package server

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/server/internal/admin"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	set := perSecond()
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
	want := admin.Listener{Address: s.addr, DenyStatus: 403, Headers: []string{"ratelimit", "x-ratelimit"}, HeadersOn: "denials"}
	if len(info.Listen) != 1 || !reflect.DeepEqual(info.Listen[0], want) || info.Admin != s.admin {
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

// The limit headers shown for a listener are those of its answers.
func TestInfoOfHeaders(t *testing.T) {
	t.Parallel()
	s := told(t, perIP(), Listener{Headers: []HeaderSet{NoHeaders}}, Listener{Headers: []HeaderSet{XRateLimitLimitHeaders, RateLimitLegacyHeaders}, HeadersOn: HeadersAlways})
	var info admin.Info
	if err := json.Unmarshal(readAll(t, get(t, "http://"+s.admin+"/v1/info")), &info); err != nil || len(info.Listen) != 2 {
		t.Fatalf("%v, %+v", err, info.Listen)
	}
	for i, want := range []string{"none on denials", "x-ratelimit-limit, ratelimit-legacy on always"} {
		if l := info.Listen[i]; strings.Join(l.Headers, ", ")+" on "+l.HeadersOn != want {
			t.Errorf("%+v; want %s", l, want)
		}
	}
}

// What happened stands in the counters, and nothing else does. Names and labels are
// held by the tests of package metrics.
func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for range 5 {
		get(t, "http://"+s.addr+"/")
	}
	raw(t, s.addr, "PRI * HTTP/2.0\r\n\r\n") // which the rule counts, and nobody decides on
	var got []string
	for line := range strings.Lines(string(readAll(t, get(t, "http://"+s.admin+"/metrics")))) {
		if strings.Contains(line, "_total") && !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0\n") && strings.HasPrefix(line, "fastlimit_") &&
			!strings.HasPrefix(line, "fastlimit_connections_accepted") {
			got = append(got, strings.TrimPrefix(line, "fastlimit_"))
		}
	}
	const want = `bad_requests_total{reason="version"} 1
decisions_total{decision="allow",mode="enforce",rule="per-ip",stage="exact"} 3
decisions_total{decision="deny",mode="enforce",rule="per-ip",stage="table"} 3
requests_total{decision="allow"} 3
requests_total{decision="deny"} 2
`
	if strings.Join(got, "") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, ""), want)
	}
	if atDoor, kept := s.conns.Accepted(); atDoor+kept != 6 {
		t.Errorf("%d connections at the door, %d kept", atDoor, kept)
	}
	var reasons []string
	for _, m := range []map[string]uint64{s.stats().Bad, s.stats().Rejected, s.stats().Dismissed} {
		reasons = append(reasons, strings.Join(slices.Sorted(maps.Keys(m)), " "))
	}
	if want := []string{
		"batch body_size cost expectation framing header_size host malformed panic peer repeated target timeout truncated unnamed version",
		"client full", "client denied full large_head",
	}; !slices.Equal(reasons, want) {
		t.Errorf("reasons %q, want %q", reasons, want)
	}
}

// The admin listener knows its own address, so a page cannot rebind a name to it.
func TestAdminRefusesReboundNames(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for host, want := range map[string]int{"evil.example": 421, "localhost:8081": 200} {
		if resp := get(t, "http://"+s.admin+"/v1/info", "Host", host); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, resp.StatusCode, want)
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
