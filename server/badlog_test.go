package server

import (
	"net"
	"regexp"
	"strings"
	"testing"
)

// A line for each second with bad requests, whoever refuses them: the gate,
// fasthttp's parser or the handler.
func TestBadRequestsAreOneLineASecond(t *testing.T) {
	t.Parallel()
	s, logs := deny(t)
	bad := func(stream string) {
		t.Helper()
		if all, _ := statuses(t, s, []byte(stream)); len(all) != 1 || all[0] < 400 {
			t.Fatalf("%q: %v", stream, all)
		}
	}
	const (
		gated   = "GET / HTTP/1.1\nHost: a\r\n\r\n"
		parsed  = "GET / HTTP/1.1\r\n\r\n"
		handled = "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"
	)
	for _, stream := range []string{gated, parsed, handled} {
		before := logs.Count("\n")
		bad(stream)
		s.endSecond()
		if n := logs.Count("\n") - before; n != 1 {
			t.Errorf("%q: %d lines:\n%s", stream, n, logs)
		}
	}
	for range 50 {
		bad(handled)
		bad(gated)
	}
	s.endSecond()
	s.endSecond()
	got := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(logs.String(), "")
	want := `level=WARN msg="bad request" peer=10.0.0.1 reason=framing status=400 count=1 error="a line ends without CR"
level=WARN msg="bad request" peer=10.0.0.1 reason=malformed status=400 count=1 error="E"
level=WARN msg="bad request" peer=10.0.0.1 reason=target status=400 count=1
level=WARN msg="bad request" peer=10.0.0.1 reason=target status=400 count=100 reasons.framing=50 reasons.target=50
`
	if got = regexp.MustCompile(`error="error when[^"]*"`).ReplaceAllString(got, `error="E"`); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Nothing of a bad request is logged as it came.
func TestBadRequestLogsCannotBeForged(t *testing.T) {
	t.Parallel()
	s, logs := deny(t)
	for _, stream := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\nsecret\x1b[31m \r\n\r\n", "GET /\x1b[31m\" level=ERROR HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: \x1b\x00\r\n\r\n",
		strings.Repeat("A", 5000) + "\x1b / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		statuses(t, s, []byte(stream))
		s.endSecond()
	}
	for line := range strings.Lines(logs.String()) {
		if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x00\x1b\n") || !strings.Contains(line, `level=WARN msg="bad request" peer=10.0.0.1 `) || len(line) > 600 {
			t.Errorf("%q", line)
		}
	}
}

// The running server ends its seconds on its own, and logs the last one when it stops.
func TestBadRequestsReachTheLog(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n")
	eventually(t, func() bool {
		return s.logs.Count(`msg="bad request" peer=127.0.0.1 reason=host status=400 count=1`) == 1
	})
	for range 5 {
		get(t, "http://"+s.addr+"/")
	}
	raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if s.logs.Count(`msg="bad request"`) != 2 || s.logs.Count("msg=denied client=127.0.0.1 ") == 0 {
		t.Errorf("got\n%s", s.logs)
	}
}

func TestBadLogWithoutAnAddress(t *testing.T) {
	t.Parallel()
	s, logs := deny(t)
	s.decide.Handlers(0).Request(newContext(&net.UnixAddr{Name: "@", Net: "unix"}))
	s.endSecond()
	if logs.Count(`peer="" reason=peer status=400 count=1`) != 1 {
		t.Errorf("got %s", logs)
	}
}
