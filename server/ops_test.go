package server

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/valyala/fasthttp"
)

func TestSampler(t *testing.T) {
	t.Parallel()
	var s sampler
	if s.take() {
		t.Error("the zero value has a budget")
	}
	for step, c := range []struct {
		total, suppressed uint64
		lines             int // of 5 events after the refill
	}{
		{0, 0, 2},
		{5, 3, 2},
		{10, 3, 2},
		{10, 0, 2},
		{1000, 986, 2},
		{1000, 0, 2}, // what was logged is not in the total yet
		{1005, 1, 2},
	} {
		if got := s.refill(2, c.total); got != c.suppressed {
			t.Errorf("step %d: %d suppressed, want %d", step, got, c.suppressed)
		}
		lines := 0
		for range 5 {
			if s.take() {
				lines++
			}
		}
		if lines != c.lines {
			t.Errorf("step %d: %d lines", step, lines)
		}
	}
	s.refill(-1, 2000)
	if s.take() {
		t.Error("a negative budget logs")
	}
}

// panicking is a rule page that panics: a broken invariant in one request.
func TestPanicIsNotTheEnd(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1
	s := start(t, set)
	clear(s.traffic[0].pages) // a denial now dereferences nil
	for i := range 5 {
		resp := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+strings.Repeat("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 3))
		if last := resp[len(resp)-1]; last.StatusCode != 500 || !last.Close {
			t.Fatalf("round %d: got %d", i, last.StatusCode)
		}
	}
	if s.reason(t, "panic") != 5 {
		t.Errorf("counted %d", s.reason(t, "panic"))
	}
	if n := s.logs.count("panic in a request"); n < 1 || n > 3 {
		t.Errorf("logged %d times", n)
	}
}

func TestRuleWatchTellsChangesOnce(t *testing.T) {
	t.Parallel()
	lim, err := fastlimit.New(fastlimit.Config{Memory: fastlimit.MinMemory, Rules: []fastlimit.RuleConfig{{Name: "x", Rate: fastlimit.Rate{N: 1, Per: time.Second}}}})
	if err != nil {
		t.Fatal(err)
	}
	rule, _ := lim.Rule("x")
	logs := new(logBuffer)
	w := ruleWatch{rule: rule, log: slog.New(slog.NewTextHandler(logs, nil))}
	for step, c := range []struct {
		at        time.Duration
		load      float64
		evictions uint64
		lines     int // in all, after this step
	}{
		{1, 0.5, 0, 0},
		{2, 0.51, 0, 1}, // overloaded
		{3, 0.9, 0, 1},
		{4, 0.45, 0, 1}, // between the thresholds nothing is said
		{5, 0.6, 0, 1},
		{6, 0.39, 0, 2}, // recovered
		{7, 0.45, 0, 2},
		{8, 0, 7, 3}, // evictions began
		{9, 0, 9, 3},
		{9 + 59, 0, 9, 3},
		{9 + 60, 0, 9, 4}, // ended
		{9 + 61, 0, 10, 5},
	} {
		w.look(fastlimit.RuleStats{SketchLoad: c.load, Evictions: c.evictions}, c.at*time.Second)
		if n := logs.count("\n"); n != c.lines {
			t.Errorf("step %d: %d lines, want %d:\n%s", step, n, c.lines, logs)
		}
	}
}

// failingListener fails as a process without file descriptors does.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

func TestAcceptSurvivesWantOfDescriptors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	l := &retryListener{
		Listener: &failingListener{ln, []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}},
		failed:   func(error) { failed++ },
	}
	go func() {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			c.Close()
		}
	}()
	c, err := l.Accept()
	if err != nil || failed != 3 {
		t.Fatalf("%v after %d failures", err, failed)
	}
	c.Close()
	l.Listener.(*failingListener).errs = []error{syscall.EBADF}
	if _, err := l.Accept(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a lasting error was not reported: %v", err)
	}
	if l.Close() != nil || l.Close() != nil {
		t.Error("the second Close fails")
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
		s.traffic[0].handle(ctx)
		if got := ctx.Response.StatusCode(); got != 400 || !ctx.Response.ConnectionClose() {
			t.Errorf("%s: %d", name, got)
		}
	}
	if n := s.faults.peer.count.Load(); n != 7 {
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

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`, "é": `\u00e9`, "\xff": `\xff`,
		strings.Repeat("a", 200): strings.Repeat("a", maxLoggedText) + "…",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
