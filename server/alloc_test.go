// The race detector makes sync.Pool drop items, so that everything allocates.

//go:build !race

package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// The handler, and with it identity, policy and page, must not allocate.
func TestHandlerDoesNotAllocate(t *testing.T) {
	for name, c := range verdicts() {
		config := newConfig(t, c.set)
		config.Listeners = c.listeners()
		s, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx := newContext(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
		if err := ctx.Request.Header.Read(bufio.NewReader(strings.NewReader(verdictRequest))); err != nil {
			t.Fatal(err)
		}
		handler := s.decide.Handlers(0).Request
		request := func() {
			ctx.Response.Reset()
			handler(ctx)
		}
		for range 10 {
			request()
		}
		if got := ctx.Response.StatusCode(); got != c.status {
			t.Fatalf("%s: status %d, want %d", name, got, c.status)
		}
		if n := testing.AllocsPerRun(1000, request); n != 0 {
			t.Errorf("%s: %v allocations per request", name, n)
		}
	}
}

// verdicts are the kinds of answers to verdictRequest.
func verdicts() map[string]verdict {
	composite := perIP()
	composite.TrustedProxies = loopback()
	composite.OriginalRequest = policy.OriginalXForwarded
	composite.Rules[0].Key = []policy.KeyPart{{Kind: policy.KeyIP}, {Kind: policy.KeyHeader, Name: "X-Api-Key"}, {Kind: policy.KeyCookie, Name: "sid"}}
	allowed := perSecond()
	allowed.Rules[0].Limit.Burst = 1 << 40
	listed := perIP()
	listed.Deny = loopback()
	return map[string]verdict{
		"allow": {allowed, 200, 0}, "deny": {perIP(), 429, 0}, "deny list": {listed, 403, 0}, "composite, proxied": {composite, 429, 0},
		"allow, shown": {allowed, 200, 1}, "deny, all headers": {perIP(), 403, 1}, "deny, a page": {perIP(), 429, 2},
	}
}

type verdict struct {
	set    policy.Settings
	status int
	style  int // of styles
}

func (v *verdict) listeners() []Listener {
	l := styles[v.style]
	l.Address = "127.0.0.1:0"
	return []Listener{l}
}

const verdictRequest = "GET /path?query HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: 192.0.2.1, 127.0.0.2\r\nX-Forwarded-Uri: /a\r\nX-Api-Key: k\r\nCookie: a=b; sid=s\r\n\r\n"

// A request that a resident answers does not allocate, system calls, parser, policy
// and answer included. The client, which is counted too, reads into one buffer.
func TestAnswerDoesNotAllocate(t *testing.T) {
	for name, c := range verdicts() {
		s := start(t, c.set, func(config *Config) { config.Listeners = c.listeners() })
		nc := dial(t, s.addr)
		request, answer := []byte(verdictRequest), make([]byte, 4096)
		ask := func() (status []byte) {
			if _, err := nc.Write(request); err != nil {
				t.Fatal(err)
			}
			n, err := nc.Read(answer)
			if err != nil || n < len("HTTP/1.1 200") {
				t.Fatal(n, err)
			}
			return answer[len("HTTP/1.1 "):len("HTTP/1.1 200")]
		}
		var status []byte
		for range 100 {
			status = ask()
		}
		if string(status) != strconv.Itoa(c.status) {
			t.Fatalf("%s: status %s, want %d", name, status, c.status)
		}
		// Below a half: the server allocates for its own tick, once a second.
		if n := allocations(2000, func() { ask() }); n >= 0.5 {
			t.Errorf("%s: %v allocations per request", name, n)
		}
		nc.Close()
		s.stop()
	}
}

// allocations is testing.AllocsPerRun with its fraction.
func allocations(runs int, f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(runs)
}

// The same over a connection that fasthttp serves, with the gate and fasthttp's parser and writer
// around it.
func TestConnectionDoesNotAllocate(t *testing.T) {
	s, err := New(newConfig(t, perIP()))
	if err != nil {
		t.Fatal(err)
	}
	ask, stop := connect(t, func(c net.Conn) { s.traffic.Listeners[0].ServeConn(c) })
	defer stop()
	for range 100 {
		ask()
	}
	// Below one: the runtime allocates now and then on its own account.
	if n := testing.AllocsPerRun(2000, ask); n >= 1 {
		t.Errorf("%v allocations per request", n)
	}
	if n := s.decide.Requests(); n.Denied < 2000 {
		t.Errorf("counted %v", n)
	}
}

// tcpConn makes an in-memory connection look like a TCP one, which is what the
// handler insists on.
type tcpConn struct{ net.Conn }

func (tcpConn) RemoteAddr() net.Addr { return tcpPeer }

// connect serves one in-memory connection; ask sends a request and reads the
// answer without allocating.
func connect(t testing.TB, serve func(net.Conn)) (ask, stop func()) {
	pipe := fasthttputil.NewPipeConns()
	done := make(chan struct{})
	go func() { serve(tcpConn{pipe.Conn1()}); close(done) }()
	c := pipe.Conn2()
	request := []byte("GET /path?query HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n")
	br := bufio.NewReader(c)
	var resp fasthttp.Response
	ask = func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := resp.Read(br); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return ask, func() { c.Close(); <-done }
}

// bare answers what the server answers without a decision: what it costs to
// return this from a fasthttp handler.
func bare(deny bool) *fasthttp.Server {
	body := []byte(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The limit of 1/s with a burst of 3 is exceeded.","violated-policies":["per-ip"]}`)
	return &fasthttp.Server{
		NoDefaultServerHeader: true, NoDefaultContentType: true,
		ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		ReadBufferSize: 4 << 10, WriteBufferSize: 2 << 10, MaxIdleWorkerDuration: time.Second,
		Handler: func(ctx *fasthttp.RequestCtx) {
			if !deny {
				return
			}
			ctx.SetStatusCode(429)
			h := &ctx.Response.Header
			h.SetContentType("application/problem+json")
			h.Set("Retry-After", "1")
			h.Set("RateLimit", `"per-ip";r=0;t=1`)
			h.Set("X-RateLimit-Remaining", "0")
			h.Set("X-RateLimit-Reset", "1.000")
			h.Set("X-RateLimit-Clear", "3.000")
			h.Set("RateLimit-Policy", `"per-ip";q=3;w=3`)
			h.Set("Cache-Control", "no-store")
			ctx.SetBody(body)
		},
	}
}

// BenchmarkHandler is the handler alone, compared with a bare one.
func BenchmarkHandler(b *testing.B) {
	allowed := perSecond()
	allowed.Rules[0].Limit.Burst, allowed.Rules[0].Limit.Strict = 1<<40, false
	for _, c := range []struct {
		name string
		set  policy.Settings
		deny bool
	}{{"allow", allowed, false}, {"deny", perIP(), true}} {
		s, err := New(newConfig(b, c.set))
		if err != nil {
			b.Fatal(err)
		}
		for name, handler := range map[string]fasthttp.RequestHandler{"fastlimit": s.decide.Handlers(0).Request, "bare": bare(c.deny).Handler} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				ctx := newContext(tcpPeer)
				for range 10 {
					handler(ctx)
				}
				for b.Loop() {
					ctx.Response.Reset()
					handler(ctx)
				}
			})
		}
	}
}

// BenchmarkConnection is a request with all of fasthttp around it, in memory:
// without the system calls, which cost most.
func BenchmarkConnection(b *testing.B) {
	s, err := New(newConfig(b, perIP()))
	if err != nil {
		b.Fatal(err)
	}
	for name, serve := range map[string]func(net.Conn){
		"fastlimit": func(c net.Conn) { s.traffic.Listeners[0].ServeConn(c) },
		"bare":      func(c net.Conn) { _ = bare(true).ServeConn(c) },
	} {
		b.Run(name, func(b *testing.B) {
			ask, stop := connect(b, serve)
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}
