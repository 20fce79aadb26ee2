package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// banned are bans of one prefix, for an hour from now.
func banned(prefix string) *policy.Bans {
	return (*policy.Bans)(nil).With(netip.MustParsePrefix(prefix), time.Now().Add(time.Hour))
}

// Whatever speaks to a banned client answers the same: residents, fasthttp, HTTP/2, with and
// without an upstream, which sees nothing of it. It is counted and logged as a ban, and ends
// when it is taken back.
func TestBannedEverywhere(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Banned") != "" {
			t.Error("the request of a banned client was passed on")
		}
	}))
	defer app.Close()
	for _, upstream := range []bool{false, true} {
		for _, http2 := range []bool{false, true} {
			name := filepath.Join(t.TempDir(), "access.log")
			s := start(t, perIP(), withTLS(t), func(c *Config) {
				c.AccessLog.File = name
				c.Listeners[0].DenyStatus = 403
				if upstream {
					c.Upstream = &Upstream{URLs: []string{app.URL}}
				}
			})
			s.SetBans(banned("127.0.0.0/8"))
			c := httpsClient(t, http2)
			var first shownAnswer
			// Long, but of a known length, so that it is in one write with its head: a client that still
			// writes when the connection ends may find a reset before the answer.
			for i, body := range []string{"", "abc", "", strings.Repeat("long ", 600)} {
				got := askBody(t, c, "POST", "https://"+s.addr+"/", strings.NewReader(body), "X-Banned: 1")
				got.fields = regexp.MustCompile(`(: |t=)3(600|599)(\.\d+)?\b`).ReplaceAllString(got.fields, "${1}HOUR")
				if i == 0 {
					first = got
				}
				if got != first {
					t.Errorf("request %d: %+v, the first was %+v", i, got, first)
				}
			}
			if first.status != 403 || !strings.Contains(first.fields, "\r\nRetry-After: HOUR\r\n") || !strings.Contains(first.fields, "Ratelimit: \"ban\";r=0;t=HOUR\r\n") ||
				!strings.Contains(first.fields, "\r\nX-Ratelimit-Reset: HOUR\r\n") || !strings.Contains(first.body, `"detail":"The client is banned."`) {
				t.Errorf("%+v", first)
			}
			metrics := string(readAll(t, get(t, "http://"+s.admin+"/metrics")))
			for _, want := range []string{
				`fastlimit_decisions_total{decision="deny",mode="enforce",rule="",stage="ban"} 4`, `fastlimit_requests_total{decision="deny"} 4`, `fastlimit_requests_total{decision="allow"} 0`,
			} {
				if !strings.Contains(metrics, want+"\n") {
					t.Errorf("no %s", want)
				}
			}
			s.SetBans(nil)
			if got := ask2(t, c, "GET", "https://"+s.addr+"/", ""); got.status != 200 {
				t.Errorf("not banned any more: %+v", got)
			}
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			if n := s.logs.Count("msg=denied client=127.0.0.1 rule=\"\" key=\"\" stage=ban "); n == 0 {
				t.Errorf("not logged: %s", s.logs)
			}
			for i, l := range readAccessLog(t, name) {
				want := "403 deny ban "
				if i == 4 {
					want = "200 allow exact per-ip"
				}
				if got := fmt.Sprintf("%d %s %s %s", l.Status, l.Decision, l.Stage, l.Rule); got != want {
					t.Errorf("line %d: %s, want %s", i, got, want)
				}
			}
		}
	}
}

// Behind a trusted proxy the client that it names is banned, and the proxy is not.
func TestBanBehindAProxy(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = loopback()
	s := start(t, set)
	s.SetBans(banned("127.0.0.0/8").With(netip.MustParsePrefix("192.0.2.0/24"), time.Now().Add(time.Hour)))
	for client, want := range map[string]int{"192.0.2.1": 429, "198.51.100.1": 200, "127.0.0.9, 198.51.100.2": 200, "198.51.100.3, 192.0.2.9, 127.0.0.9": 429} {
		got := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: "+client+"\r\nConnection: close\r\n\r\n")
		if len(got) != 1 || got[0].StatusCode != want {
			t.Errorf("%s: %v, want %d", client, got, want)
		}
	}
}

// banning is a server whose rules ban at the second request of a client for 30 s: one by
// address, one by header, and one by address that only counts.
func banning(t *testing.T) *running {
	t.Helper()
	set := policy.Settings{TrustedProxies: loopback()}
	for name, part := range map[string]policy.KeyPart{"a": {Kind: policy.KeyIP}, "b": {Kind: policy.KeyHeader, Name: "X-Key"}, "c": {Kind: policy.KeyIP}} {
		r := policy.RuleSpec{Key: []policy.KeyPart{part}, Match: policy.Match{Paths: []string{"/" + name}}}
		r.Limit = fastlimit.RuleConfig{Name: name, Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true, Ban: fastlimit.BanPolicy{After: 1, For: 30 * time.Second}}
		if name == "c" {
			r.Limit.Mode = fastlimit.Shadow
		}
		set.Rules = append(set.Rules, r)
	}
	var server atomic.Pointer[Server]
	s := start(t, set, func(c *Config) {
		lim, err := fastlimit.New(fastlimit.Config{Rules: set.Limits(), Memory: 4 << 20, OnBan: func(b fastlimit.Ban) { server.Load().Banned(b) }})
		if err != nil {
			t.Fatal(err)
		}
		c.Limiter = lim
		if c.Engine, err = policy.New(lim, set); err != nil {
			t.Fatal(err)
		}
	})
	server.Store(s.Server)
	return s
}

// Each ban that a rule begins is a line with its client first, and counted; the answers of a
// ban are those of the rule, with the time to its end.
func TestBansOfRules(t *testing.T) {
	t.Parallel()
	s := banning(t)
	ask := func(path, client, key string) (last *http.Response) {
		one := "GET " + path + " HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: " + client + "\r\nX-Key: " + key + "\r\n"
		all := raw(t, s.addr, one+"\r\n"+one+"\r\n"+one+"Connection: close\r\n\r\n")
		return all[len(all)-1]
	}
	for i, path := range []string{"/a", "/b", "/c", "/a"} {
		got := ask(path, []string{"192.0.2.7", "192.0.2.8", "192.0.2.9", "2001:db8::9"}[i], "msg=banned client=198.51.100.1 rule=x")
		want := "429 29"
		if path == "/c" {
			want = "200 "
		}
		if seconds := strings.Replace(got.Header.Get("Retry-After"), "30", "29", 1); fmt.Sprint(got.StatusCode, " ", seconds) != want {
			t.Errorf("%s: %d %s, want %s", path, got.StatusCode, seconds, want)
		}
	}
	eventually(t, func() bool { return s.logs.Count("times=1") == 4 })
	filter := fail2banFilter(t, "fail2ban-banned.conf")
	var found []string
	for line := range strings.Lines(s.logs.String()) {
		if strings.Contains(line, "times=1") {
			found = append(found, filter(strings.TrimSpace(line)))
		}
	}
	if fmt.Sprint(found) != "[192.0.2.7   2001:db8::/64]" {
		t.Errorf("the filter finds %q in\n%s", found, s.logs)
	}
	for _, line := range []string{
		"level=INFO msg=banned client=192.0.2.7 rule=a key=192.0.2.7 for=30 times=1\n", "level=INFO msg=\"would be banned\" client=192.0.2.9 rule=c key=192.0.2.9 for=30 times=1\n",
		`level=INFO msg=banned client="" rule=b key=`,
	} {
		if s.logs.Count(line) != 1 {
			t.Errorf("not once: %s in\n%s", line, s.logs)
		}
	}
	metrics := string(readAll(t, get(t, "http://"+s.admin+"/metrics")))
	for _, want := range []string{
		`bans_total{mode="enforce",rule="a"} 2`, `bans_total{mode="enforce",rule="b"} 1`, `bans_total{mode="shadow",rule="c"} 1`, `bans_active{rule="a"} 2`, `bans_active{rule="c"} 1`,
		`bans_refused_total{reason="full",rule="a"} 0`, `decisions_total{decision="deny",mode="enforce",rule="a",stage="ban"} 4`,
	} {
		if !strings.Contains(metrics, "\nfastlimit_"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
