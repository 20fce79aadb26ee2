package server

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/policy"
)

func TestAllowsThenDenies(t *testing.T) {
	t.Parallel()
	s := start(t, perSecond())
	allowed, begin := uint64(0), time.Now()
	checkDenial(t, untilDenied(t, "http://"+s.addr+"/", func(resp *http.Response) {
		allowed++
		if resp.StatusCode != 200 || resp.ContentLength != 0 {
			t.Fatalf("status %d, length %d: want an empty 200", resp.StatusCode, resp.ContentLength)
		}
		for name := range resp.Header {
			if strings.Contains(strings.ToLower(name), "ratelimit") {
				t.Errorf("an admitted request shows %s", name)
			}
		}
	}), 429)
	most := 3 + uint64(time.Since(begin)/time.Second)
	if n := s.decide.Requests(); allowed < 3 || allowed > most || n.Allowed != allowed || n.Denied != 1 {
		t.Errorf("counted %v, admitted %d, want at most %d", n, allowed, most)
	}
}

// untilDenied asks until there is a denial, which it returns: on a slow machine some of the burst
// has leaked by then.
func untilDenied(t *testing.T, url string, admitted func(*http.Response)) *http.Response {
	t.Helper()
	for {
		resp := get(t, url)
		if resp.StatusCode >= 400 {
			return resp
		}
		admitted(resp)
	}
}

func checkDenial(t *testing.T, resp *http.Response, status int) {
	t.Helper()
	if resp.StatusCode != status {
		t.Fatalf("status %d, want %d", resp.StatusCode, status)
	}
	h := resp.Header
	for name, want := range map[string]string{
		"Retry-After":           "1",
		"RateLimit-Policy":      `"per-ip";q=3;w=3`,
		"RateLimit":             `"per-ip";r=0;t=1`,
		"X-RateLimit-Remaining": "0",
		"Content-Type":          "application/problem+json",
		"Cache-Control":         "no-store",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for name, most := range map[string]time.Duration{"X-RateLimit-Reset": time.Second, "X-RateLimit-Clear": 3 * time.Second} {
		d, err := time.ParseDuration(h.Get(name) + "s")
		_, decimals, _ := strings.Cut(h.Get(name), ".")
		if err != nil || d <= 0 || d > most || len(decimals) != 3 {
			t.Errorf("%s: %q: want up to %v with three decimals", name, h.Get(name), most)
		}
	}
	for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
		if _, err := httpsfv.UnmarshalList(h.Values(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.Get("Date") == "" || h.Get("Server") != "" {
		t.Errorf("Date %q, Server %q", h.Get("Date"), h.Get("Server"))
	}
	var doc struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(readAll(t, resp), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Status != status || !strings.HasSuffix(doc.Type, "#quota-exceeded") || len(doc.Violated) != 1 || doc.Violated[0] != "per-ip" {
		t.Errorf("problem document %+v", doc)
	}
}

func TestListenersHaveTheirOwnDenyStatus(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) {
		c.Listeners = append(c.Listeners, Listener{Address: "127.0.0.1:0", DenyStatus: 403})
	})
	first, second := "http://"+s.addr+"/", "http://"+s.Addrs()[1].String()+"/"
	for i, want := range []int{200, 200, 200, 429} {
		if resp := get(t, first); resp.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, resp.StatusCode, want)
		}
	}
	resp := get(t, second) // and shares the buckets
	if resp.StatusCode != 403 || resp.Header.Get("RateLimit-Policy") != `"per-ip";q=3;w=10800` || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Allow = loopback()
	s := start(t, set)
	for range 10 {
		if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 200 {
			t.Fatalf("an allowed client got %d", resp.StatusCode)
		}
	}
	set.Deny, set.Allow = set.Allow, nil
	s = start(t, set, func(c *Config) { c.Listeners[0].DenyStatus = 429 })
	resp := get(t, "http://"+s.addr+"/")
	if resp.StatusCode != 403 || resp.Header.Get("Retry-After") != "" || resp.Header.Get("RateLimit") != "" {
		t.Errorf("a listed client got %d %v", resp.StatusCode, resp.Header)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" || !json.Valid(readAll(t, resp)) {
		t.Errorf("content type %q", ct)
	}
	if n := s.decide.Requests(); n.ListDenied != 1 || n.Denied != 0 {
		t.Errorf("counted %v", n)
	}
}

func TestClientsBehindATrustedProxyAreToldApart(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = loopback()
	s := start(t, set)
	ask := func(client string) int {
		return get(t, "http://"+s.addr+"/", "X-Forwarded-For", client).StatusCode
	}
	for range 3 {
		ask("192.0.2.1")
	}
	if got := ask("192.0.2.1"); got != 429 {
		t.Errorf("the fourth request got %d", got)
	}
	if got := ask("192.0.2.2"); got != 200 {
		t.Errorf("another client got %d", got)
	}
}

func TestForwardedForOfAStrangerIsIgnored(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	last := 0
	for i := range 4 {
		last = get(t, "http://"+s.addr+"/", "X-Forwarded-For", "192.0.2."+string(rune('1'+i))).StatusCode
	}
	if last != 429 {
		t.Errorf("a spoofed header bought a bucket: %d", last)
	}
	if s.decide.Untrusted() != 4 || s.logs.Count("not trusted") != 1 {
		t.Errorf("hint counted %d and was logged %d times", s.decide.Untrusted(), s.logs.Count("not trusted"))
	}
}

func TestOriginalRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		from    policy.OriginalRequest
		trusted bool
		headers []string
		want    int // of a request that the rule's match decides
	}{
		{"itself", policy.OriginalNone, true, []string{"X-Original-URI", "/login"}, 200},
		{"x-original", policy.OriginalXOriginal, true, []string{"X-Original-URI", "/login", "X-Original-Method", "POST"}, 429},
		{"x-original, another path", policy.OriginalXOriginal, true, []string{"X-Original-URI", "/", "X-Original-Method", "POST"}, 200},
		{"x-original, another method", policy.OriginalXOriginal, true, []string{"X-Original-URI", "/login"}, 200},
		{"x-original, untrusted", policy.OriginalXOriginal, false, []string{"X-Original-URI", "/login", "X-Original-Method", "POST"}, 200},
		{"x-forwarded", policy.OriginalXForwarded, true, []string{"X-Forwarded-Uri", "/login?a=b", "X-Forwarded-Method", "POST", "X-Forwarded-Host", "shop.example:443"}, 429},
		{"x-forwarded, another host", policy.OriginalXForwarded, true, []string{"X-Forwarded-Uri", "/login", "X-Forwarded-Method", "POST", "X-Forwarded-Host", "example"}, 200},
		{"a bad path", policy.OriginalXOriginal, true, []string{"X-Original-URI", "/%zz"}, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			set := perIP()
			set.OriginalRequest = c.from
			if c.trusted {
				set.TrustedProxies = loopback()
			}
			set.Rules[0].Limit.Burst = 1
			set.Rules[0].Match = policy.Match{Paths: []string{"/login"}, Methods: []string{"POST"}}
			if c.from == policy.OriginalXForwarded {
				set.Rules[0].Match.Hosts = []string{"shop.*"}
			}
			s := start(t, set)
			get(t, "http://"+s.addr+"/auth", c.headers...)
			if got := get(t, "http://"+s.addr+"/auth", c.headers...).StatusCode; got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestHeadersAndCookiesAreKeys(t *testing.T) {
	t.Parallel()
	for _, part := range []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}, {Kind: policy.KeyCookie, Name: "sid"}} {
		set := perIP()
		set.Rules[0].Key = []policy.KeyPart{part}
		s := start(t, set)
		ask := func(v string) int {
			return get(t, "http://"+s.addr+"/", "x-api-key", v, "Cookie", "other=1; sid="+v).StatusCode
		}
		for range 3 {
			ask("a")
		}
		if got := ask("a"); got != 429 {
			t.Errorf("%v: the fourth got %d", part, got)
		}
		if got := ask("b"); got != 200 {
			t.Errorf("%v: another key got %d", part, got)
		}
		for range 5 {
			if got := get(t, "http://"+s.addr+"/").StatusCode; got != 200 {
				t.Errorf("%v: without one the rule does not apply, got %d", part, got)
			}
		}
	}
}

func TestNewNamesEveryMistake(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		`Limiter: is missing: make one with fastlimit.New
Engine: is missing: make one with policy.New
Identity: is missing: make one with policy.NewIdentity
Listeners: is missing: name at least one address, for example 127.0.0.1:8080`: {},
		`Listeners[0].DenyStatus: 200 of listener x:1 is not the status of a denial: want 400 to 599, 429 for most and 403 for nginx auth_request
Listeners[1].Address: is missing: write host:port, for example 127.0.0.1:8080
DenialLogs: 101 is too large: want at most 100
Connections.Max: -1 is too small: want 0 for the default of 16384, or at least 1
Connections.HeaderBytes: 511 is too small: want 0 for the default of 32768, or at least 512
Connections.BodyBytes: -1 is too small: want 0 for the default of 65536, or at least 1
Connections.IdleTimeout: -1s is negative: want 0 for the default of 1m0s, or more
Drain.Delay: -1ns is negative: want 0 for the default of 0s, or more`: func() Config {
			c := newConfig(t, perIP())
			c.Listeners = []Listener{{Address: "x:1", DenyStatus: 200}, {}}
			c.DenialLogs = 101
			c.Connections = Connections{Max: -1, BodyBytes: -1, HeaderBytes: 511, IdleTimeout: -time.Second}
			c.Drain.Delay = -1
			return c
		}(),
	} {
		_, err := New(c)
		var got []string
		for _, e := range field.All(err) {
			if e.Package != "fastlimit/server" {
				t.Errorf("package %q", e.Package)
			}
			got = append(got, strings.TrimPrefix(e.Error(), e.Package+": "))
		}
		if strings.Join(got, "\n") != want || strings.Count(err.Error(), "\n")+1 != len(got) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestListenErrorsNameAddressAndFix(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := newConfig(t, perIP())
	c.Listeners = []Listener{{Address: taken.Addr().String()}, {Address: "192.0.2.1:80"}, {Address: "nonsense"}}
	c.Admin = taken.Addr().String()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Listen()
	if err == nil {
		t.Fatal("bound")
	}
	for _, want := range []string{
		"listen " + taken.Addr().String(), "another process uses it",
		"listen 192.0.2.1:80", "no interface",
		"listen nonsense", "write host:port",
		"admin " + taken.Addr().String(),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
	if s.Addrs() != nil || s.AdminAddr() != nil {
		t.Error("a failed Listen left addresses")
	}
}

func TestShadowRuleDeniesNobody(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Mode = fastlimit.Shadow
	s := start(t, set)
	for range 6 {
		if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 200 {
			t.Fatalf("got %d", resp.StatusCode)
		}
	}
	r, _ := s.config().Limiter.Rule("per-ip")
	if st := r.Stats(); st.Denied[fastlimit.StageTable]+st.Denied[fastlimit.StageExact] != 3 {
		t.Errorf("counted %+v", st)
	}
}
