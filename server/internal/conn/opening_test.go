package conn

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/valyala/fasthttp"
)

// echo is a listener whose answers name the client and the target, however they are
// answered.
type echo struct {
	*Listener
	addr string
	done chan error
}

// startEcho serves until the test ends. Limits that are zero are out of reach.
func startEcho(t testing.TB, limits Limits, o Options) *echo {
	t.Helper()
	return newEcho(limits, o, echoHandlers()).start(t)
}

// newEcho returns a listener that answers by h.
func newEcho(limits Limits, o Options, h Handlers) *echo {
	limits.HeadBytes = 32 << 10
	for _, d := range []*time.Duration{&limits.Head, &limits.Write, &limits.Idle} {
		if *d == 0 {
			*d = time.Hour
		}
	}
	if limits.Max == 0 {
		limits.Max = 1000
	}
	if limits.PerClient == 0 {
		limits.PerClient = limits.Max
	}
	e := &echo{done: make(chan error, 1), Listener: NewListener(New(limits, discard), o, h)}
	return e
}

func echoHandlers() Handlers {
	body := func(c *Conn, target []byte) string { return fmt.Sprintf("%v %s\n", c.Addr(), target) }
	return Handlers{
		Answer: func(dst []byte, c *Conn, h *Head) ([]byte, bool, bool) {
			if bytes.ContainsFunc(h.Host, func(r rune) bool { return r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
				return dst, false, false // fasthttp may refuse it, however the request came
			}
			c.BeginRequest()
			text := body(c, h.Target)
			last, closing := c.LastRequest(), ""
			if last {
				closing = "Connection: close\r\n"
			}
			return fmt.Appendf(dst, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(text), closing, text), last, true
		},
		Request: func(ctx *fasthttp.RequestCtx) {
			c := Of(ctx)
			if v, _ := c.BeginRequest(); v != nil {
				ctx.SetStatusCode(400)
				LeaveUnread(ctx)
				return
			}
			if ctx.Request.IsBodyStream() {
				_, _ = io.Copy(io.Discard, ctx.RequestBodyStream())
			}
			ctx.SetBodyString(body(c, ctx.RequestURI()))
			if c.LastRequest() {
				ctx.SetConnectionClose()
			}
		},
		ParseError: func(ctx *fasthttp.RequestCtx, err error) {
			if Of(ctx).Unparsed(err) != nil {
				ctx.Response.Reset()
				ctx.SetStatusCode(400)
				LeaveUnread(ctx)
			}
		},
		Log: nopLogger{},
	}
}

// start binds a free port and serves.
func (e *echo) start(t testing.TB) *echo {
	t.Helper()
	e.bind(t)
	e.serve(t)
	return e
}

func (e *echo) bind(t testing.TB) {
	t.Helper()
	if err := e.Bind("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	e.addr = e.Addr().String()
}

// serve accepts until the test ends.
func (e *echo) serve(t testing.TB) {
	t.Helper()
	go func() { e.done <- e.Accept() }()
	t.Cleanup(func() {
		e.Drain()
		e.Close(time.Now().Add(DrainTime))
		if err := <-e.done; err != nil {
			t.Error(err)
		}
		e.conns.CloseAll()
		if !e.conns.EmptyWithin(10 * time.Second) {
			t.Error("connections do not end")
		}
	})
}

type nopLogger struct{}

func (nopLogger) Printf(string, ...any) {}

// say sends a stream in pieces, half-closes, and returns all that is answered.
func (e *echo) say(t testing.TB, source, stream string, how int) string {
	t.Helper()
	c := dialFrom(t, source, e.addr)
	for _, piece := range cut(stream, how) {
		if _, err := c.Write(piece); err != nil {
			break // it was closed
		}
	}
	_ = c.(*net.TCPConn).CloseWrite()
	all, _ := io.ReadAll(c) // a reset ends it too
	c.Close()
	return string(all)
}

// proxied believes the PROXY headers of one address.
func proxied(addr string) Options {
	one := netip.MustParseAddr(addr)
	return Options{Proxied: func(a netip.Addr) bool { return a == one }}
}

const (
	header1 = "PROXY TCP4 192.0.2.1 10.0.0.1 12345 80\r\n"
	header2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x00\x50"
	local2  = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// The requests of a connection are those that stand behind the header, byte for byte, in
// whatever pieces both arrive: simple ones, ones for fasthttp, and heads above 4 KiB.
func TestProxyHeader(t *testing.T) {
	t.Parallel()
	e := startEcho(t, Limits{}, proxied("127.0.0.2"))
	simple := "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
	post := "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, simple, i)
	}
	for header, client := range map[string]string{
		header1: "192.0.2.1", header2: "192.0.2.1", local2: "127.0.0.2", "PROXY UNKNOWN\r\n": "127.0.0.2",
		strings.Replace(header2, "\x00\x0c", "\x0c\x0f", 1) + "\xee\x0c\x00" + strings.Repeat("x", 3<<10): "192.0.2.1",
	} {
		for name, requests := range map[string]string{
			"one": fmt.Sprintf(simple, 1), "pipelined": many.String(), "body first": post + post + many.String(), "long": headOf(9000, "") + many.String(), "header again": "",
		} {
			want := strings.Count(requests, "HTTP/1.1\r\n")
			for how := range 5 {
				got := e.say(t, "127.0.0.2", header+requests, how)
				if n := strings.Count(got, client+" /"); n != want || strings.Count(got, "HTTP/1.1 200 OK") != want {
					t.Fatalf("%.30q, %s, cut %d: %d of %d answers for %s\n%.300s", header, name, how, n, want, client, got)
				}
			}
		}
	}
	// A second header is no request.
	if got := e.say(t, "127.0.0.2", header1+header1+fmt.Sprintf(simple, 1), 0); !strings.HasPrefix(got, "HTTP/1.1 400") || strings.Contains(got, "200 OK") {
		t.Errorf("a header behind the header: %q", got)
	}
	for why, n := range e.conns.ProxyErrors() {
		if n != 0 {
			t.Errorf("%d errors of kind %s", n, why)
		}
	}
}

// Who may send a header has to; who may not is a client, whose header is a bad request
// and names nobody. Each refusal is counted under its reason, once.
func TestProxyHeaderRefused(t *testing.T) {
	t.Parallel()
	const request = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, c := range []struct{ source, stream, answer, reason string }{
		{"127.0.0.2", request, "", "missing"},
		{"127.0.0.2", "\x16\x03\x01\x02\x00\x01", "", "missing"},
		{"127.0.0.2", "PROXY TCP4 192.0.2.1 10.0.0.1 x 80\r\n" + request, "", "malformed"},
		{"127.0.0.2", "PROXY " + strings.Repeat("A", 200), "", "malformed"},
		{"127.0.0.2", header2[:12] + "\x21\x11\xff\xff" + request, "", "malformed"},
		{"127.0.0.2", strings.Replace(header2, "\x21\x11", "\x21\x12", 1) + request, "", "address"},
		{"127.0.0.2", strings.Replace(header2, "\x00\x0c", "\x00\x13", 1) + "\x03\x00\x04abcd" + request, "", "checksum"},
		{"127.0.0.2", header1[:20], "", "closed"},
		{"127.0.0.2", "", "", ""},
		{"127.0.0.3", request, "HTTP/1.1 200", ""},
		{"127.0.0.3", header1 + request, "HTTP/1.1 400", "untrusted"},
		{"127.0.0.3", header2 + request, "HTTP/1.1 400", "untrusted"},
	} {
		e := startEcho(t, Limits{}, proxied("127.0.0.2"))
		got := e.say(t, c.source, c.stream, 0)
		if c.answer == "" && got != "" || !strings.HasPrefix(got, c.answer) || strings.Contains(got, "192.0.2.1") {
			t.Errorf("%s, %.40q: %q", c.source, c.stream, got)
		}
		eventually(t, func() bool { return e.conns.Open() == 0 })
		for why, n := range e.conns.ProxyErrors() {
			if want := why == c.reason; want != (n == 1) || n > 1 {
				t.Errorf("%s, %.40q: %d of kind %s", c.source, c.stream, n, why)
			}
		}
	}
}

// A balancer that is silent, before its header or in it, is cut off after the time for a
// head, and keeps nobody waiting meanwhile.
func TestSilentBalancer(t *testing.T) {
	t.Parallel()
	e := startEcho(t, Limits{Head: time.Hour}, proxied("127.0.0.2"))
	var silent []net.Conn
	for i := range 40 {
		c := dialFrom(t, "127.0.0.2", e.addr)
		io.WriteString(c, header1[:i%2*10])
		silent = append(silent, c)
	}
	// Who is cut off with bytes that nobody has read gets a reset in place of an end.
	eventually(t, func() bool { return e.conns.States()["new"] == 20 && e.conns.States()["opening"] == 20 })
	if got := e.say(t, "127.0.0.2", header1+"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", 0); !strings.Contains(got, "192.0.2.1 /x") {
		t.Fatalf("behind silent ones: %q", got)
	}
	age(e.conns, time.Hour)
	e.conns.sweep()
	for _, c := range silent {
		if !hasEnded(c) {
			t.Fatal("a silent connection stays")
		}
	}
	if n := e.conns.ProxyErrors()["timeout"]; n != 40 {
		t.Errorf("%d timeouts are counted", n)
	}
}

// age lets time pass for a sweep.
func age(c *Conns, d time.Duration) { c.tick.Add(uint32(d/c.period) + 2) }

// The bound on a client's connections holds for whom the header names, not for the
// balancer; one above it costs that client its own.
func TestClientBehindABalancerIsBounded(t *testing.T) {
	t.Parallel()
	e := startEcho(t, Limits{PerClient: 3}, proxied("127.0.0.2"))
	open := func(client string) net.Conn {
		c := dialFrom(t, "127.0.0.2", e.addr)
		fmt.Fprintf(c, "PROXY TCP4 %s 10.0.0.1 1 80\r\n", client)
		if ask(c) != 200 {
			t.Fatalf("a connection of %s", client)
		}
		return c
	}
	var neighbours []net.Conn
	for i := range 5 {
		neighbours = append(neighbours, open(fmt.Sprintf("192.0.2.%d", 10+i)))
	}
	for range 10 {
		open("192.0.2.1")
	}
	for _, c := range neighbours {
		if ask(c) != 200 {
			t.Error("a neighbour was dismissed")
		}
	}
	if n := e.conns.Dismissed()["client"]; n != 7 {
		t.Errorf("%d were dismissed, want 7", n)
	}
	eventually(t, func() bool { return e.conns.Open() == 8 })
}

// A drain ends connections whose header has not come, and cuts none.
func TestDrainBeforeTheHeader(t *testing.T) {
	t.Parallel()
	e := startEcho(t, Limits{}, proxied("127.0.0.2"))
	for i := range 4 {
		c := dialFrom(t, "127.0.0.2", e.addr)
		io.WriteString(c, header1[:i%2*10])
	}
	eventually(t, func() bool { return e.conns.Open() == 4 })
	f := Front{Conns: e.conns, Listeners: []*Listener{e.Listener}}
	if cut := f.Drain(0, 10*time.Millisecond); cut != 0 {
		t.Errorf("%d connections were cut", cut)
	}
}

// FuzzAccept sends anything to a listener from a peer that has to send a header: the
// answers are those of a listener without, to what stands behind the header.
func FuzzAccept(f *testing.F) {
	const request = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
	for i, s := range []string{header1 + request, header2 + request + request, local2 + request, request, header1, header1 + header1, header2[:20], "PROXY UNKNOWN\r\n" + request} {
		f.Add([]byte(s), byte(i))
	}
	f.Add([]byte(header1+"GET /x HTTP/1.1\r\nHost: [\r\n\r\n"), byte(5))
	f.Add([]byte(header2+request+"GET /x HTTP/1.0\r\nHost: a\r\n\r\n"), byte(2)) // the gate answers one, fasthttp the other
	plain, behind := startEcho(f, Limits{}, Options{}), startEcho(f, Limits{}, proxied("127.0.0.2"))
	var mu sync.Mutex // one at a time, for the counters
	f.Fuzz(func(t *testing.T, data []byte, how byte) {
		mu.Lock()
		defer mu.Unlock()
		got := behind.say(t, "127.0.0.2", string(data), int(how%8))
		client, n := "", 0
		switch {
		case bytes.HasPrefix(data, []byte(header1)):
			client, n = "192.0.2.1", len(header1)
		case bytes.HasPrefix(data, []byte(header2)):
			client, n = "192.0.2.1", len(header2)
		case bytes.HasPrefix(data, []byte(local2)):
			client, n = "127.0.0.2", len(local2)
		case bytes.HasPrefix(data, []byte("PROXY ")), bytes.HasPrefix(data, []byte(header2[:12])):
			return // FuzzHeader of package proxyheader knows
		default:
			if got != "" {
				t.Fatalf("without a header: %q", got)
			}
			return
		}
		want := strings.ReplaceAll(plain.say(t, "127.0.0.2", string(data[n:]), int(how%8)), "\n127.0.0.2 ", "\n"+client+" ")
		if stripped(got) != stripped(want) {
			t.Fatalf("%q:\ngot  %q\nwant %q", data, got, want)
		}
	})
}

// stripped leaves out what differs by the second and by the length of the client's name.
func stripped(answers string) string {
	var all []string
	for line := range strings.Lines(answers) {
		if !strings.HasPrefix(line, "Date: ") && !strings.HasPrefix(line, "Content-Length: ") {
			all = append(all, line)
		}
	}
	return strings.Join(all, "")
}
