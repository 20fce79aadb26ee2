package proxy

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/leaks"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// TestMain fails if an exchange leaves a goroutine behind.
func TestMain(m *testing.M) {
	if role := os.Getenv(crowdRole); role != "" {
		playCrowd(role)
		return
	}
	os.Exit(leaks.ExitCode(m.Run()))
}

// limitedPath is a path that each client may have three times an hour.
const limitedPath = "/limited"

func settings() policy.Settings {
	return policy.Settings{Rules: []policy.RuleSpec{{
		Limit: fastlimit.RuleConfig{Name: "limited", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 3, Strict: true},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}},
		Match: policy.Match{Paths: []string{limitedPath}},
	}}}
}

// stand is a proxy that serves until the test ends.
type stand struct {
	*Proxy
	addr  string
	front *conn.Front
	pool  *upstream.Pool
	logs  *testkit.Log
	drain func()
}

// options are what a test changes.
type standOptions struct {
	settings policy.Settings
	limits   conn.Limits
	listener decide.Listener
	pool     upstream.Config
	options  conn.Options
	header   string
	refuse   bool

	finishTime time.Duration // of uploads; 0: the proxy's own
}

// start puts a proxy in front of servers on TCP.
func start(t testing.TB, change func(*standOptions), servers ...string) *stand {
	t.Helper()
	s := &stand{logs: new(testkit.Log)}
	o := standOptions{
		settings: settings(),
		limits:   conn.Limits{Head: time.Hour, Write: time.Hour, Idle: time.Hour, Max: 1 << 14, PerClient: 1 << 14, Streams: 1 << 14, HeadBytes: 32 << 10},
		listener: decide.Listener{Options: denial.Options{Status: http.StatusTooManyRequests}},
	}
	for _, server := range servers {
		o.pool.Servers = append(o.pool.Servers, upstream.Server{Network: "tcp", Address: server, Name: server})
	}

	// No timeout passes on a loaded machine unless a test asks for it.
	o.pool.ResponseTimeout, o.pool.WriteTimeout, o.pool.IdleTimeout, o.pool.QueueTimeout = time.Hour, time.Hour, time.Hour, time.Hour
	o.pool.ConnectTimeout = time.Minute
	o.pool.Log = slog.New(slog.NewTextHandler(s.logs, nil))
	if change != nil {
		change(&o)
	}
	lim, err := fastlimit.New(fastlimit.Config{Rules: o.settings.Limits(), Memory: 4 << 20})
	must(t, err)
	engine, err := policy.New(lim, o.settings)
	must(t, err)
	id, err := policy.NewIdentity(o.settings)
	must(t, err)
	service := decide.New(decide.Config{Log: o.pool.Log, BodyBytes: 64 << 10, DenialLogs: -1},
		decide.NewSnapshot(decide.Settings{Limiter: lim, Engine: engine, Identity: id, Listeners: []decide.Listener{o.listener}}))
	s.pool = upstream.New(o.pool)
	s.Proxy = New(Config{Settings{s.pool, o.header, engine.Headers(), o.refuse}, service, o.pool.Log})
	s.Proxy.finishTime = cmp.Or(o.finishTime, finishTime)
	service.SetForwarder(s.Proxy)
	conns := conn.New(o.limits, o.pool.Log)
	l := conn.NewListener(conns, o.options, service.Handlers(0))
	s.front = &conn.Front{Conns: conns, Listeners: []*conn.Listener{l}, Addresses: []string{"127.0.0.1:0"}}
	must(t, s.front.Listen())
	s.addr = s.front.Addrs()[0].String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.front.Begin(func(err error) { t.Error(err) })
	go func() {
		defer close(done)
		s.front.Serve(ctx)
	}()
	s.drain = sync.OnceFunc(func() {
		if cut := s.front.Drain(0, 5*time.Second); cut > 0 {
			t.Errorf("%d connections were cut", cut)
		}
		cancel()
		<-done
		s.pool.Close()
	})
	t.Cleanup(s.drain)
	return s
}

// serveHTTP is an upstream of package net/http.
func serveHTTP(t testing.TB, h http.HandlerFunc) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

// serveRaw is an upstream that does what f says with each of its connections, which are
// numbered from 1.
func serveRaw(t testing.TB, f func(c net.Conn, n int)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	var open sync.Map
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			wg.Go(func() {
				defer c.Close()
				f(c, n)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return ln.Addr().String()
}

// client is an HTTP client of its own, without redirects or anything added.
func client(t testing.TB) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, ExpectContinueTimeout: time.Minute}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// do sends a request and returns the answer with its body.
func do(t testing.TB, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(body)
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	must(t, err)
	return req
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
