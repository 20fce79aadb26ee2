package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// shown returns the fields that show an app its client, and the body once it has come.
func shown(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	defer func() { _, _ = w.Write(body) }()
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"} {
		w.Header().Set("Seen-"+name, strings.Join(r.Header.Values(name), "|"))
	}
}

// The app learns of TLS and of PROXY headers in front.
func TestInFront(t *testing.T) {
	t.Parallel()
	files := redistest.NewCertificate(t, time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	must(t, err)
	app := serveHTTP(t, shown)
	s := start(t, func(o *standOptions) {
		o.options.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}, app)
	c := client(t)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the certificate is not what is tested
	for _, size := range []int{0, 10, 1_000_000} {
		body := strings.Repeat("x", size)
		resp, got := do(t, c, request(t, "POST", "https://"+s.addr+"/", strings.NewReader(body)))
		if resp.StatusCode != 200 || got != body || resp.Header.Get("Seen-X-Forwarded-Proto") != "https" || !strings.HasSuffix(resp.Header.Get("Seen-Forwarded"), ";proto=https") {
			t.Errorf("%d bytes: %s, %d bytes, %v", size, resp.Status, len(got), resp.Header)
		}
	}

	s = start(t, func(o *standOptions) { o.options.Proxied = func(netip.Addr) bool { return true } }, app)
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n", "POST / HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"} {
		got, err := exchangeRaw(t, s.addr, "PROXY TCP6 2001:db8::7 2001:db8::1 1000 80\r\n"+request)
		if err != nil || !strings.Contains(got, "Seen-X-Forwarded-For: 2001:db8::7\r\n") || !strings.Contains(got, `Seen-Forwarded: for="[2001:db8::7]";host="b";proto=http`) || !strings.Contains(got, "Seen-X-Forwarded-Host: b\r\n") {
			t.Errorf("%q %v", got, err)
		}
	}
}

// A trusted proxy is believed, and its list is extended; a client's is not.
func TestTrustedProxy(t *testing.T) {
	t.Parallel()
	const fields = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: c\r\nForwarded: for=1.2.3.4\r\nX_Forwarded_For: 9.9.9.9\r\nConnection: x-forwarded-for, close\r\n"
	for _, trusted := range []bool{true, false} {
		s := start(t, func(o *standOptions) {
			if trusted {
				o.settings.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		}, serveHTTP(t, shown))
		got, err := exchangeRaw(t, s.addr, "GET / HTTP/1.1\r\nHost: b\r\n"+fields+"\r\n")
		want := []string{"For: 127.0.0.1", "Proto: http", "Host: b", `Seen-Forwarded: for=127.0.0.1;host="b";proto=http`}
		if trusted {
			want = []string{"For: 1.2.3.4, 5.6.7.8, 127.0.0.1", "Proto: https", "Host: c", `Seen-Forwarded: for=1.2.3.4, for=127.0.0.1;host="b";proto=http`}
		}
		for _, w := range want {
			if err != nil || !strings.Contains(got, w+"\r\n") {
				t.Errorf("trusted %v: %q %v, want %q", trusted, got, err, w)
			}
		}
	}
}

// Upstreams on Unix sockets and behind TLS; one whose certificate is not good gets nothing.
func TestKindsOfUpstreams(t *testing.T) {
	t.Parallel()
	path := testkit.ShortDir(t) + "/app.sock"
	ln, err := net.Listen("unix", path)
	must(t, err)
	unix := &http.Server{Handler: http.HandlerFunc(shown)}
	go func() { _ = unix.Serve(ln) }()
	t.Cleanup(func() { unix.Close() })
	secure := httptest.NewUnstartedServer(http.HandlerFunc(shown))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	https := upstream.Server{Network: "tcp", Address: secure.Listener.Addr().String(), Name: "secure", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	unknown := https
	unknown.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	long := strings.Repeat("x", 1_000_000)
	for _, tt := range []struct {
		name   string
		server upstream.Server
		status int
	}{
		{"unix", upstream.Server{Network: "unix", Address: path, Name: "unix"}, 200},
		{"https", https, 200},
		{"https of somebody else", unknown, 502},
		{"no socket", upstream.Server{Network: "unix", Address: path + "x", Name: "unix"}, 502},
	} {
		s := start(t, func(o *standOptions) { o.pool.Servers = []upstream.Server{tt.server} })
		c := client(t)
		for _, body := range []string{"", "ok", long, ""} {
			resp, got := do(t, c, request(t, "POST", "http://"+s.addr+"/", strings.NewReader(body)))
			if resp.StatusCode != tt.status || tt.status == 200 && got != body {
				t.Errorf("%s: %s, %d bytes of %d", tt.name, resp.Status, len(got), len(body))
			}
		}
		if pool := s.pool.Stats().Servers[0]; tt.status == 200 && pool.Dials != 1 || tt.status != 200 && pool.DialErrors["tls"]+pool.DialErrors["refused"] != 4 {
			t.Errorf("%s: %+v", tt.name, pool)
		}
		s.drain()
	}
}

// Requests that wait for a slot are passed on when it comes, and those whose clients leave meanwhile are not.
func TestWaiting(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	s := start(t, func(o *standOptions) {
		l := &o.settings.Rules[0].Limit
		l.Rate, l.Burst, l.MaxWait = fastlimit.Rate{N: 10, Per: time.Second}, 1, time.Hour
		o.settings.Rules[0].Match = policy.Match{}
	}, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(w, r.Body)
		seen[r.URL.Path]++
	}))
	var clients sync.WaitGroup
	for i := range 10 {
		clients.Go(func() {
			method, body := "GET", ""
			if i%2 == 1 {
				method, body = "POST", "body"
			}
			resp, got := do(t, client(t), request(t, method, fmt.Sprintf("http://%s/%d", s.addr, i), strings.NewReader(body)))
			if resp.StatusCode != 200 || got != body {
				t.Errorf("%s %q", resp.Status, got)
			}
		})
	}
	clients.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 10 {
		t.Errorf("%v", seen)
	}
}

// Our limit fields replace the app's fields of the same names; its other fields stay.
func TestOurFields(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *standOptions) {
		o.listener.Always = true
		o.listener.Headers = []denial.HeaderSet{denial.XRateLimitLimit}
	}, serveRaw(t, func(c net.Conn, _ int) {
		for in := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 7\r\nx-ratelimit-remaining: 7\r\nX-RateLimit-Other: 7\r\nContent-Length: 0\r\n\r\n")
		}
	}))
	k := &talker{t: t, addr: s.addr}
	for i, ask := range []struct{ method, path, more string }{{"GET", limitedPath, ""}, {"POST", limitedPath, "Content-Length: 0\r\n"}, {"GET", "/", ""}} {
		resp, _, err := k.ask(ask.method, ask.path, ask.more)
		must(t, err)
		limit, left := "3", fmt.Sprint(2-i)
		if ask.path == "/" {
			limit, left = "7", "7"
		}
		h := resp.Header
		if strings.Join(h.Values("X-RateLimit-Limit"), "|") != limit || strings.Join(h.Values("X-RateLimit-Remaining"), "|") != left || h.Get("X-RateLimit-Other") != "7" {
			t.Errorf("%+v: %v", ask, h)
		}
	}
}

// A request that comes back to the proxy that has sent it is answered with 508.
func TestLoop(t *testing.T) {
	t.Parallel()
	back := make(chan string, 1)
	s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
		addr := <-back
		back <- addr
		to, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(to, c); to.Close() }()
		_, _ = io.Copy(c, to)
	}))
	back <- s.addr
	k := &talker{t: t, addr: s.addr}
	for range 3 {
		resp, body, err := k.ask("GET", "/", "Via: 1.1 other\r\n")
		if err != nil || resp.StatusCode != http.StatusLoopDetected || !strings.Contains(body, "come through this proxy before") {
			t.Errorf("%v %q %v", resp, body, err)
		}
	}
	if st := s.Stats(); st.Failures["loop"] != 3 || st.Answers["5xx"] != 3 {
		t.Errorf("%+v", st)
	}
}
