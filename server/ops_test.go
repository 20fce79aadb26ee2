package server

import (
	"net"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/valyala/fasthttp"
)

// A broken invariant in one request does not end the process.
func TestPanicIsNotTheEnd(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1
	s := start(t, set)
	broken := *s.decide.Snapshot().Settings()
	broken.Listeners = nil // a denial now finds no answer
	s.decide.Swap(decide.NewSnapshot(broken))
	for i := range 5 {
		resp := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 3))
		if last := resp[len(resp)-1]; last.StatusCode != 500 || !last.Close {
			t.Fatalf("round %d: got %d", i, last.StatusCode)
		}
	}
	if s.reason(t, "panic") != 5 {
		t.Errorf("counted %d", s.reason(t, "panic"))
	}
	if n := s.logs.Count("panic in a request"); n < 1 || n > 3 {
		t.Errorf("logged %d times", n)
	}
}

// fasthttp makes 0.0.0.0 of addresses that are not TCP; a key shared by all of
// them would let one deny the others.
func TestPeersWithoutAnAddressAreRefused(t *testing.T) {
	t.Parallel()
	s, err := New(newConfig(t, perIP()))
	if err != nil {
		t.Fatal(err)
	}
	for name, peer := range map[string]net.Addr{
		"unix":        &net.UnixAddr{Name: "@", Net: "unix"},
		"0.0.0.0":     &net.TCPAddr{IP: net.IPv4zero, Port: 1},
		"::":          &net.TCPAddr{IP: net.IPv6zero, Port: 1},
		"none":        &net.TCPAddr{},
		"no addr":     nil,
		"half an ip":  &net.TCPAddr{IP: net.IP{1, 2}},
		"4in6 of any": &net.TCPAddr{IP: net.ParseIP("::ffff:0.0.0.0")},
	} {
		ctx := newContext(peer)
		s.decide.Handlers(0).Request(ctx)
		if got := ctx.Response.StatusCode(); got != 400 || !ctx.Response.ConnectionClose() {
			t.Errorf("%s: %d", name, got)
		}
	}
	if n := s.decide.Bad()["peer"]; n != 7 {
		t.Errorf("counted %d", n)
	}
}

func newContext(peer net.Addr) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	var req fasthttp.Request
	req.Header.SetMethod("GET")
	req.Header.SetHost("example.com")
	req.Header.SetProtocol("HTTP/1.1")
	req.SetRequestURI("/path?query")
	ctx.Init(&req, peer, nil)
	return ctx
}
