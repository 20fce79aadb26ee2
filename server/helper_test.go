package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
	"github.com/fastlimit/fastlimit/policy"
)

// TestMain fails if a server leaves a goroutine behind.
func TestMain(m *testing.M) { os.Exit(leaks.ExitCode(m.Run())) }

// What talks to a server over bare connections.
var (
	dialFrom, ask, hasEnded = rawhttp.DialFrom, rawhttp.Ask, rawhttp.HasEnded
	headOf, cut, eventually = rawhttp.HeadOf, rawhttp.Cut, rawhttp.Eventually
)

// perIP is the settings of one rule per address, strict, so that the fourth request of a client
// is denied, however slow the machine is.
func perIP() policy.Settings {
	set := perSecond()
	set.Rules[0].Limit.Rate.Per = time.Hour
	return set
}

// perSecond is perIP with 1 per second, for tests of what is said about that.
func perSecond() policy.Settings {
	return policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 3, Strict: true},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
	}}}
}

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// newConfig compiles settings.
func newConfig(t testing.TB, set policy.Settings) Config {
	t.Helper()
	lim, err := fastlimit.New(fastlimit.Config{Rules: set.Limits(), Memory: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(lim, set)
	if err != nil {
		t.Fatal(err)
	}
	id, err := policy.NewIdentity(set)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Listeners: []Listener{{Address: "127.0.0.1:0"}},
		Admin:     "127.0.0.1:0",
		Limiter:   lim, Engine: engine, Identity: id,
		Logger: slog.New(slog.DiscardHandler), Version: "test",
	}
}

// running is a server that runs until the test ends or stop is called.
type running struct {
	*Server
	addr, admin string
	logs        *testkit.Log
	stop        func() error
}

func start(t testing.TB, set policy.Settings, change ...func(*Config)) *running {
	t.Helper()
	r := &running{logs: new(testkit.Log)}
	c := newConfig(t, set)
	c.Logger = slog.New(slog.NewTextHandler(r.logs, nil))
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	r.Server, r.addr = s, s.Addrs()[0].String()
	if a := s.AdminAddr(); a != nil {
		r.admin = a.String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { r.stop() })
	eventually(t, func() bool { return s.run.Ready() == nil })
	return r
}

// raw sends bytes over a connection of its own and returns the responses it
// gets until the server closes, which is an error if it does not.
func raw(t testing.TB, addr, request string) []*http.Response {
	t.Helper()
	c := dial(t, addr)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	var all []*http.Response
	br := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				t.Fatalf("the connection stays open after %q", request)
			}
			return all
		}
		resp.Body = io.NopCloser(bytes.NewReader(readAll(t, resp)))
		all = append(all, resp)
	}
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	return c
}

func readAll(t testing.TB, resp *http.Response) []byte {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// get asks over a connection of its own.
func get(t testing.TB, url string, headers ...string) *http.Response {
	t.Helper()
	return send(t, http.MethodGet, url, "", headers...)
}

func send(t testing.TB, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(readAll(t, resp)))
	return resp
}
