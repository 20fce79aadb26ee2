package proxy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// What an app sees of a request, and a client of its answer.
func TestPasses(t *testing.T) {
	t.Parallel()
	app := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %d", r.Method, r.RequestURI, r.Host, r.ContentLength))
		w.Header().Set("Keep-Alive", "timeout=5")
		_, _ = fmt.Fprintf(w, "%x", sha256.Sum256(body))
	})
	s := start(t, nil, app)
	long := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, tt := range []struct {
		name, method string
		body         io.Reader
		seen         string
	}{
		{"get", "GET", nil, "GET /a?b=c example.com 0"},
		{"head", "HEAD", nil, "HEAD /a?b=c example.com 0"},
		{"post", "POST", strings.NewReader("hello"), "POST /a?b=c example.com 5"},
		{"empty", "POST", http.NoBody, "POST /a?b=c example.com 0"},
		{"long", "PUT", bytes.NewReader(long), "PUT /a?b=c example.com 1048576"},
		{"chunked", "POST", io.MultiReader(bytes.NewReader(long)), "POST /a?b=c example.com -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			for range 3 {
				var sent []byte
				if tt.body != nil {
					sent, _ = io.ReadAll(tt.body)
				}
				var body io.Reader
				switch tt.name {
				case "get", "head":
				case "chunked":
					body = io.MultiReader(bytes.NewReader(sent))
				default:
					body = bytes.NewReader(sent)
				}
				req := request(t, tt.method, "http://"+s.addr+"/a?b=c", body)
				req.Host = "example.com"
				resp, got := do(t, c, req)
				want := fmt.Sprintf("%x", sha256.Sum256(sent))
				if tt.method == "HEAD" {
					want = ""
				}
				if resp.StatusCode != 200 || resp.Header.Get("X-Seen") != tt.seen || got != want {
					t.Errorf("%v %q, want %q; body %d bytes", resp.Status, resp.Header.Get("X-Seen"), tt.seen, len(got))
				}
				if resp.Header.Get("Keep-Alive") != "" || resp.Header.Get("Date") == "" || resp.Close {
					t.Errorf("%v, closes %v", resp.Header, resp.Close)
				}
				tt.body = bytes.NewReader(sent)
			}
		})
	}
}

// Answers in chunks with trailers, and of any size, arrive as they are.
func TestAnswers(t *testing.T) {
	t.Parallel()
	app := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		var size int
		_, _ = fmt.Sscanf(r.URL.Query().Get("n"), "%d", &size)
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		} else {
			w.Header().Set("Trailer", "X-Sum")
		}
		data := make([]byte, size)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(40_000))
			_, _ = w.Write(rest[:n])
			if rest = rest[n:]; rng.IntN(3) == 0 {
				w.(http.Flusher).Flush()
			}
		}
		if r.URL.Path != "/length" {
			w.(http.Flusher).Flush()
			w.Header().Set("X-Sum", fmt.Sprintf("%x", sha256.Sum256(data)))
		} else {
			return
		}
	})
	s := start(t, nil, app)
	c := client(t)
	for _, size := range []int{0, 1, 100, 4000, 8192, 10_000, 65_536, 1_000_000} {
		for _, path := range []string{"/length", "/chunks"} {
			resp, body := do(t, c, request(t, "GET", fmt.Sprintf("http://%s%s?n=%d", s.addr, path, size), nil))
			if len(body) != size || resp.StatusCode != 200 {
				t.Fatalf("%s: %d bytes of %d, %s", path, len(body), size, resp.Status)
			}
			if path == "/chunks" && resp.Trailer.Get("X-Sum") != fmt.Sprintf("%x", sha256.Sum256([]byte(body))) {
				t.Errorf("%d: trailer %v", size, resp.Trailer)
			}
		}
	}
}

// A denied request does not reach the app; every other one has one decision.
func TestDenies(t *testing.T) {
	t.Parallel()
	reached := 0
	app := serveHTTP(t, func(http.ResponseWriter, *http.Request) { reached++ })
	s := start(t, nil, app)
	c := client(t)
	for i := range 6 {
		method, body := "GET", io.Reader(nil)
		if i%2 == 1 {
			method, body = "POST", strings.NewReader("some bytes")
		}
		resp, _ := do(t, c, request(t, method, "http://"+s.addr+limitedPath, body))
		if want := map[bool]int{true: 200, false: 429}[i < 3]; resp.StatusCode != want {
			t.Errorf("request %d: %s", i, resp.Status)
		}
	}
	if reached != 3 {
		t.Errorf("%d requests have reached the app", reached)
	}
}

// Answers of status 1xx come before the real one, and Expect: 100-continue works end to end.
func TestInterim(t *testing.T) {
	t.Parallel()
	app := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	s := start(t, nil, app)
	var hints, continues int
	req := request(t, "POST", "http://"+s.addr+"/", strings.NewReader("hello"))
	req.Header.Set("Expect", "100-continue")
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				hints++
			}
			return nil
		},
		Got100Continue: func() { continues++ },
	}))
	if resp, body := do(t, client(t), req); resp.StatusCode != 200 || body != "5" || hints != 1 || continues != 1 {
		t.Errorf("%s %q, %d hints, %d continues", resp.Status, body, hints, continues)
	}
}

// An upgraded connection is a tunnel, which the drain ends without losing what is under way.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	app := serveRaw(t, func(c net.Conn, _ int) {
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		if !strings.Contains(string(buf[:n]), "Connection: Upgrade\r\n") || !strings.Contains(string(buf[:n]), "Upgrade: echo\r\n") {
			t.Errorf("%q", buf[:n])
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello ")
		_, _ = io.Copy(c, c)
	})
	s := start(t, nil, app)
	c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n")
	want := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nhello "
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q %v", got, err)
	}
	_, _ = io.WriteString(c, "world")
	if _, err := io.ReadFull(c, got[:5]); err != nil || string(got[:5]) != "world" {
		t.Fatalf("%q %v", got[:5], err)
	}
	if n := s.Stats().Tunnels; n != 1 {
		t.Errorf("%d tunnels", n)
	}
	go s.drain()
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// An app that is away gives 502, one that is silent 504.
func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	gone := serveRaw(t, func(net.Conn, int) {})
	s := start(t, nil, gone)
	resp, body := do(t, client(t), request(t, "GET", "http://"+s.addr+"/", nil))
	if resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "did not answer") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp.Close {
		t.Error("the connection ends")
	}
	silent := serveRaw(t, func(c net.Conn, _ int) { _, _ = io.Copy(io.Discard, c) })
	s = start(t, func(o *standOptions) { o.pool.ResponseTimeout = 50_000_000 }, silent)
	if resp, _ = do(t, client(t), request(t, "GET", "http://"+s.addr+"/", nil)); resp.StatusCode != http.StatusGatewayTimeout {
		t.Error(resp.Status)
	}
}
