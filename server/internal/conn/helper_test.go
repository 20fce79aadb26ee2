package conn

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/valyala/fasthttp"
)

// What talks to a server over bare connections.
var (
	dialFrom, hasEnded      = rawhttp.DialFrom, rawhttp.HasEnded
	ask, askFor             = rawhttp.Ask, rawhttp.AskFor
	headOf, cut, eventually = rawhttp.HeadOf, rawhttp.Cut, rawhttp.Eventually
)

// running is a listener that serves until the test ends.
type running struct {
	conns *Conns
	addr  string
}

var discard = slog.New(slog.DiscardHandler)

// denyPath is what the handler of tests denies; it admits everything else.
const denyPath = "/deny"

// start serves on a free port. Limits that are zero are out of reach.
func start(t testing.TB, limits Limits) *running {
	t.Helper()
	for _, d := range []*time.Duration{&limits.Head, &limits.Write, &limits.Idle} {
		if *d == 0 {
			*d = time.Hour
		}
	}
	if limits.PerClient == 0 {
		limits.PerClient = limits.Max
	}
	if limits.HeadBytes == 0 {
		limits.HeadBytes = 32 << 10
	}
	conns := New(limits, discard)
	l := NewListener(conns, Options{}, Handlers{
		Answer: func(dst []byte, c *Conn, h *Head) (out []byte, last, ok bool) {
			status := "200 OK"
			if v, _ := c.BeginRequest(); v != nil {
				t.Errorf("%v", v)
			}
			if path, _, _ := bytes.Cut(h.Target, []byte("?")); string(path) == denyPath {
				status, last = "429 Too Many Requests", c.Denied()
			}
			last = c.LastRequest() || last
			dst = append(dst, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n"...)
			if last {
				dst = append(dst, "Connection: close\r\n"...)
			}
			return append(dst, "\r\n"...), last, true
		},
		Request: func(ctx *fasthttp.RequestCtx) {
			c := Of(ctx)
			if v, _ := c.BeginRequest(); v != nil {
				t.Errorf("%v", v)
			}
			if string(ctx.Path()) == denyPath {
				ctx.SetStatusCode(429)
				if c.Denied() {
					ctx.SetConnectionClose()
				}
			}
			if c.LastRequest() {
				ctx.SetConnectionClose()
			}
		},
		ParseError: func(ctx *fasthttp.RequestCtx, err error) {
			if Of(ctx).Unparsed(err) == nil {
				return
			}
			var small *fasthttp.ErrSmallBuffer
			var netErr net.Error
			ctx.Response.Reset()
			switch {
			case errors.As(err, &small):
				ctx.SetStatusCode(431)
			case errors.As(err, &netErr) && netErr.Timeout():
				ctx.SetStatusCode(408)
			default:
				ctx.SetStatusCode(400)
			}
			LeaveUnread(ctx)
		},
	})
	if err := l.Bind("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Accept() }()
	t.Cleanup(func() {
		l.Drain()
		l.Close(time.Now().Add(DrainTime))
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := conns.AcceptErrors(); n > 0 {
			t.Errorf("%d errors of accepting", n)
		}
		conns.CloseAll()
		if !conns.EmptyWithin(10 * time.Second) {
			t.Error("connections do not end")
		}
	})
	return &running{conns, l.Addr().String()}
}
