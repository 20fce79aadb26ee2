package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// A body is dropped, never parsed as the next request: up to the bound the connection continues after it,
// beyond it ends with the answer.
func TestBodiesAreDropped(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Burst = 1 << 30
	s := start(t, set, func(c *Config) { c.Connections.BodyBytes = 10_000 })
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	fill := func(n int) string { return strings.Repeat(smuggled, n/len(smuggled)+1)[:n] }
	chunks := func(n, each int) string {
		var b strings.Builder
		for ; n > 0; n -= each {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", min(n, each), fill(min(n, each)))
		}
		return b.String() + "0\r\nX-Trailer: x\r\n\r\n"
	}
	for _, n := range []int{0, 1, 100, 4000, 4096, 9_999, 10_000, 10_001, 50_000, 300_000} {
		for name, request := range map[string]string{
			"length":        fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, fill(n)),
			"chunks":        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(n, 700),
			"a single byte": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(min(n, 200), 1),
		} {
			long := n > 10_000 && name != "a single byte"
			before := s.decide.Requests()
			all := raw(t, s.addr, request+"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			want := 2
			if long {
				want = 1
			}
			if len(all) != want || all[0].StatusCode != 200 || all[0].Close != long {
				t.Errorf("%s, %d bytes: %d answers, want %d; the first: %v", name, n, len(all), want, all)
			}
			if got := s.decide.Requests().Allowed - before.Allowed; got != uint64(want) {
				t.Errorf("%s, %d bytes: decided %d times, want %d", name, n, got, want)
			}
		}
	}
}

// Half a body is no request.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.HeaderTimeout = 300 * time.Millisecond })
	for request, want := range map[string]int{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n":                             408,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1":                            408,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345":                        408,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n":                     408,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab":              408,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdeX\r\n":      400,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n": 400,
	} {
		if all := raw(t, s.addr, request); len(all) != 1 || all[0].StatusCode != want {
			t.Errorf("%q: %v, want %d", request, all, want)
		}
	}
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	} {
		c := dial(t, s.addr)
		io.WriteString(c, request)
		c.(interface{ CloseWrite() error }).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 400 {
			t.Errorf("%q and the end: %v %v", request, resp, err)
		}
		c.Close()
	}
	if n := s.decide.Requests(); n != (decide.Requests{}) {
		t.Errorf("decided %v", n)
	}
}

// A client that waits to be asked for the body is answered at once.
func TestExpectIsAnsweredWithoutTheBody(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for i, want := range []int{200, 200, 200, 429} {
		all := raw(t, s.addr, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n")
		if len(all) != 1 || all[0].StatusCode != want || !all[0].Close {
			t.Errorf("%d: %v, want %d and close", i, all, want)
		}
	}
	// The body of one that does not wait is no request.
	all := raw(t, s.addr, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 37\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n\r\n")
	if len(all) != 1 {
		t.Errorf("%v", all)
	}
	if n := s.decide.Requests(); n.Allowed+n.Denied != 5 {
		t.Errorf("decided %v", n)
	}
}

// /v1/decide needs the body, and asks for it.
func TestExpectOfADecideBatch(t *testing.T) {
	t.Parallel()
	s := start(t, decideSettings(), func(c *Config) { c.DecideAPI = true })
	const batch = `{"requests":[{"rule":"per-ip","key":["192.0.2.7"]}]}`
	for _, head := range []string{"", headOf(9000, "")[len("GET /p HTTP/1.1\r\nHost: a\r\n"):]} { // short and long
		c := dial(t, s.addr)
		fmt.Fprintf(c, "POST /v1/decide HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s", len(batch), head)
		if head == "" {
			io.WriteString(c, "\r\n")
		}
		br := bufio.NewReader(c)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 100 {
			t.Fatalf("%v %v", resp, err)
		}
		io.WriteString(c, batch)
		if resp, err = http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		if b := readAll(t, resp); !strings.Contains(string(b), `"allowed":true`) {
			t.Errorf("%s", b)
		}
		c.Close()
	}
}

// An answer given before the body is read arrives, although the client keeps sending: the connection is not
// reset under it.
func TestAnswerBeforeTheBodyArrives(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Burst = 1 << 30
	s := start(t, set, func(c *Config) { c.Connections.BodyBytes = 1000 })
	for range 50 {
		c := dial(t, s.addr)
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n\r\n")
		for range 6 {
			if _, err := c.Write(make([]byte, 100_000)); err != nil {
				t.Fatalf("the client is cut off: %v", err)
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		c.Close()
	}
}
