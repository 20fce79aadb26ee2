package proxy

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/fastlimit/fastlimit/policy"
)

// costed has requests cost what the app says, 1 if it does not.
func costed(o *standOptions) {
	o.settings.Rules[0].Limit.Burst = 10
	o.settings.Rules[0].Match = policy.Match{}
	o.settings.Rules[0].CostFrom.ResponseHeader = "X-Cost"
}

// The app reports what requests have cost, whether or not they came by the short path; clients do not see it.
func TestAppNamesCosts(t *testing.T) {
	t.Parallel()
	app := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Cost", "9") // of an answer that comes before
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("X-Cost")
		if cost := r.URL.Query().Get("cost"); cost != "" {
			w.Header().Set("x-cost", cost)
		}
		w.Header().Set("X-Costly", "yes")
		_, _ = io.WriteString(w, "done")
	})
	for _, method := range []string{"GET", "POST"} {
		s := start(t, costed, app)
		c := client(t)
		rule := s.service.Snapshot().Settings().Limiter.Rules()[0]
		for i, step := range []struct {
			cost   string
			status int
			left   int64
		}{
			{"", 200, 9}, {"0", 200, 9}, {"4", 200, 5}, {"x", 200, 4}, {"4", 200, 0}, {"0", 429, 0},
		} {
			var body io.Reader
			if method == "POST" {
				body = strings.NewReader("a body")
			}
			resp, text := do(t, c, request(t, method, "http://"+s.addr+"/?cost="+step.cost, body))
			if resp.StatusCode != step.status || step.status == 200 && (text != "done" || resp.Header.Get("X-Costly") == "") {
				t.Errorf("%s %d: %s %q %v", method, i, resp.Status, text, resp.Header)
			}
			if resp.Header.Get("X-Cost") != "" {
				t.Errorf("%s %d: the client is told %v", method, i, resp.Header)
			}
			if got := rule.Peek(rule.AddrKey(netip.MustParseAddr("127.0.0.1")), 1).Remaining; got != step.left {
				t.Errorf("%s %d: %d left, want %d", method, i, got, step.left)
			}
		}
		if n := rule.Stats().BadCosts; n != 1 {
			t.Errorf("%d bad costs", n)
		}
	}
}

// An answer that was not passed on has no cost, and an upgrade has that of its head.
func TestCostsOfOtherAnswers(t *testing.T) {
	t.Parallel()
	for answer, left := range map[string]int64{
		"HTTP/1.1 200 OK\r\nX-Cost: 5\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n": 9,
		"": 9,
		"HTTP/1.1 103 Early Hints\r\nX-Cost: 9\r\n\r\nHTTP/1.1 200 OK\r\nX-Cost: 5\r\nContent-Length: 0\r\n\r\n": 5,
		"HTTP/1.1 101 Switching Protocols\r\nX-Cost: 5\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello":     5,
		"HTTP/1.1 204 No Content\r\nx-COST:\t 5 \r\n\r\n":                                                        5,
		"HTTP/1.1 304 Not Modified\r\nConnection: x-cost\r\nX-Cost: 5\r\n\r\n":                                   5,
	} {
		app := serveRaw(t, func(c net.Conn, _ int) {
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
		})
		s := start(t, costed, app)
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Upgrade\r\nUpgrade: echo\r\n\r\n")
		got, _ := io.ReadAll(c)
		if strings.Contains(strings.ToLower(string(got)), "x-cost") || !strings.Contains(string(got), "\r\n\r\n") {
			t.Errorf("%q becomes %q", answer, got)
		}
		rule := s.service.Snapshot().Settings().Limiter.Rules()[0]
		if n := rule.Peek(rule.AddrKey(netip.MustParseAddr("127.0.0.1")), 1).Remaining; n != left {
			t.Errorf("%q: %d left, want %d", answer, n, left)
		}
	}
}
