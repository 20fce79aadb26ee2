package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
			for i, body := range []string{"", "abc", "", strings.Repeat("long ", 4000)} {
				got := ask2(t, c, "POST", "https://"+s.addr+"/", body, "X-Banned: 1")
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
