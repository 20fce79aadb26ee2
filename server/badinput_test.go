package server

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// Every case over a real connection; the server must answer and close, count the reason, decide nothing and
// keep serving.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) {
		c.Connections.BodyBytes = 100
		c.Connections.HeaderTimeout = time.Second
		c.BadRequests = IgnoreBadRequests
	})
	for _, c := range []struct {
		name, request string
		status        int
		reason        string
	}{
		{"no method", " / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed"},
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed"},
		{"no version", "GET /\r\nHost: a\r\n\r\n", 400, "malformed"},
		{"header without a colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", 400, "malformed"},
		{"control byte in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400, "malformed"},
		{"space before the colon", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, "malformed"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, "malformed"},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "malformed"},
		{"a host with a blank", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "malformed"},
		{"a host with an empty label", "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n", 400, "host"},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version"},
		{"HTTP/9.9", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505, "version"},
		{"both lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"both lengths, the other way", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"both lengths, odd case", "POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-encoding:\tCHUNKED\r\ncontent-LENGTH:5\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"both lengths, identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", 400, "framing"},
		{"both lengths on GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"identity", "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400, "framing"},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 400, "framing"},
		{"a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\nok", 400, "malformed"},
		{"a signed length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\nok", 400, "malformed"},
		{"a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\n\r\nok", 400, "malformed"},
		{"two encodings", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"an unknown encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"an encoding on HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"a folded header", "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400, "framing"},
		{"a folded encoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\tchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "framing"},
		{"a bad chunk", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "malformed"},
		{"percent and no hex", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
		{"percent cut off", "GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
		{"a relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed"},
		{"a long header", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 40_000) + "\r\n\r\n", 431, "header_size"},
		{"many headers", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: aaaa\r\n", 4000) + "\r\n", 431, "header_size"},
		{"a long target", "GET /" + strings.Repeat("a", 40_000) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431, "header_size"},
		{"half a header", "GET / HTTP/1.1\r\nHost:", 408, "timeout"},
		{"half a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", 408, "timeout"},
		{"nothing", "", 408, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.reason(t, c.reason)
			all := raw(t, s.addr, c.request)
			if len(all) == 0 {
				t.Fatal("closed without an answer")
			}
			resp := all[len(all)-1]
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
			if !resp.Close {
				t.Error("the answer does not announce the close")
			}
			if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" || !json.Valid(readAll(t, resp)) {
				t.Errorf("the answer is no problem document: %s", ct)
			}
			if got := s.reason(t, c.reason); got != before+1 {
				t.Errorf("reason %s was counted %d times", c.reason, got-before)
			}
		})
	}
	if n := s.decide.Requests(); n != (decide.Requests{}) {
		t.Errorf("bad requests were decided: %v", n)
	}
	if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 200 {
		t.Errorf("a good request got %d afterwards", resp.StatusCode)
	}
}

// reason is the number of bad requests counted for it.
func (r *running) reason(t *testing.T, reason string) uint64 {
	t.Helper()
	n, ok := r.decide.Bad()[reason]
	if !ok {
		t.Fatalf("%q is no reason", reason)
	}
	return n
}

func TestUnusualButGoodRequests(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1000
	s := start(t, set)
	for name, request := range map[string]string{
		"HTTP/1.0":                 "GET / HTTP/1.0\r\n\r\n",
		"HTTP/1.0 with a host":     "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		"a body on GET":            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
		"chunks":                   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"h2c upgrade":              "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"websocket":                "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET / HTTP/1.0\r\n\r\n",
		"absolute form":            "GET http://other.example/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"the server as a whole":    "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"an unknown method":        "BREW / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"names like those of TE":   "GET / HTTP/1.1\r\nHost: a\r\nContent-Length-X: 1\r\nTransfer-Encodings: a\r\nTe: trailers\r\nConnection: close\r\n\r\n",
		"an empty line in advance": "\r\nGET / HTTP/1.0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			all := raw(t, s.addr, request)
			if len(all) == 0 {
				t.Fatal("no answer")
			}
			for _, resp := range all {
				if resp.StatusCode != 200 {
					t.Errorf("got %d: %s", resp.StatusCode, readAll(t, resp))
				}
			}
		})
	}
}

func TestPipelinedRequestsAreEachDecided(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	one := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	all := raw(t, s.addr, strings.Repeat(one, 6)+"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"+one)
	var got []int
	for _, r := range all {
		got = append(got, r.StatusCode)
	}
	if len(got) != 7 || got[2] != 200 || got[3] != 429 || got[6] != 429 {
		t.Errorf("got %v: want 3 times 200 and 4 times 429, and nothing after close", got)
	}
}

// A bad request in a pipeline ends it: the bytes behind it are not requests.
func TestNothingIsReadBehindABadRequest(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	all := raw(t, s.addr, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
	if len(all) != 1 || all[0].StatusCode != 400 {
		t.Errorf("%d answers, the first %v", len(all), all)
	}
}

// The whole budget counts, not the time since the last byte.
func TestSlowClientIsClosedAtTheReadTimeout(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.HeaderTimeout = 300 * time.Millisecond })
	c := dial(t, s.addr)
	defer c.Close()
	go func() {
		for _, b := range []byte("GET / HTTP/1.1\r\nHost: a\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa") {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != 408 {
		t.Fatalf("%v %v", resp, err)
	}
	if s.reason(t, "timeout") != 1 {
		t.Error("not counted")
	}
}

func TestBadTargetOfATrustedProxy(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = loopback()
	set.OriginalRequest = policy.OriginalXOriginal
	s := start(t, set)
	for name, headers := range map[string]string{
		"twice":     "X-Original-URI: /a\r\nX-Original-URI: /b\r\n",
		"bad bytes": "X-Original-URI: /%g0\r\n",
	} {
		all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\n"+headers+"\r\n")
		if len(all) != 1 || all[0].StatusCode != 400 {
			t.Errorf("%s: %v", name, all)
		}
	}
}
