package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// exchangeRaw sends a stream and returns all that comes until the connection ends.
func exchangeRaw(t testing.TB, addr, stream string) (all string, err error) {
	t.Helper()
	return exchangeFrom(t, "127.0.0.1", addr, stream)
}

func exchangeFrom(t testing.TB, source, addr, stream string) (all string, err error) {
	t.Helper()
	c := rawhttp.DialFrom(t, source, addr)
	_, _ = io.WriteString(c, stream)
	b, err := io.ReadAll(c)
	return string(b), err
}

// A client of HTTP/1.0 gets no chunks, nothing but the real answer, and the end of the
// connection at the end of it; a reset if the answer is not whole.
func TestHTTP10Clients(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nDate: now\r\n"
	for _, tt := range []struct {
		answer, want string
		broken       bool
	}{
		{head + "Content-Length: 2\r\n\r\nok", head + "Content-Length: 2\r\nConnection: close\r\n\r\nok", false},
		{head + "Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nX: y\r\n\r\n", head + "Connection: close\r\n\r\nok", false},
		{"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + head + "\r\nok", head + "Connection: close\r\n\r\nok", false},
		{"HTTP/1.0 200 OK\r\nDate: now\r\n\r\nok", head + "Connection: close\r\n\r\nok", false},
		{"HTTP/1.1 204 No\r\nDate: now\r\n\r\n", "HTTP/1.1 204 No\r\nDate: now\r\nConnection: close\r\n\r\n", false},
		{head + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", head + "Connection: close\r\n\r\nok", true},
	} {
		s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, tt.answer)
			}
		}))
		for _, fields := range []string{"", "Connection: keep-alive\r\nHost: a\r\n"} {
			got, err := exchangeRaw(t, s.addr, "GET / HTTP/1.0\r\n"+fields+"\r\nGET /next HTTP/1.0\r\n\r\n")
			if tt.broken {
				if err == nil || !strings.HasPrefix(tt.want, got) {
					t.Errorf("%q: %q %v", tt.answer, got, err)
				}
			} else if err != nil || got != tt.want {
				t.Errorf("%q: %q %v, want %q", tt.answer, got, err, tt.want)
			}
		}
	}
}

// A denied client gets its denial at once, whatever it was about to send, and the app sees nothing.
func TestDeniedUploads(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	reached := 0
	s := start(t, nil, serveHTTP(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached++
	}))
	for range 3 {
		_, _ = do(t, client(t), request(t, "GET", "http://"+s.addr+limitedPath, nil))
	}
	const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, tt := range []struct {
		name, fields, body string
		kept               bool // the connection goes on
	}{
		{"expects", "Expect: 100-continue\r\nContent-Length: 5\r\n", "", false},
		{"expects chunks", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "", false},
		{"short", "Content-Length: 5\r\n", "hello", true},
		{"as long as is read", "Content-Length: 65536\r\n", strings.Repeat("x", 65_536), true},
		{"long", "Content-Length: 1000000000\r\n", "hello", false},
		{"chunks", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", false},
		{"upgrade", "Connection: upgrade\r\nUpgrade: echo\r\n", "", true},
	} {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_, _ = io.WriteString(c, "POST "+limitedPath+" HTTP/1.1\r\nHost: a\r\n"+tt.fields+"\r\n"+tt.body+next)
		in := bufio.NewReader(c)
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 429 || resp.Close == tt.kept || !strings.Contains(string(body), "quota") {
			t.Errorf("%s: %v %q", tt.name, resp, body)
		}
		resp, err = http.ReadResponse(in, nil)
		if tt.kept && (err != nil || resp.StatusCode != 200) || !tt.kept && err == nil {
			t.Errorf("%s: then %v %v", tt.name, resp, err)
		}
		c.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if reached != 3+3 {
		t.Errorf("%d requests have reached the app", reached)
	}
}

// A denied client that goes on sending is not reset at once: that could destroy the answer before the client
// has read it.
func TestDeniedUploadsGoOn(t *testing.T) {
	t.Parallel()
	s := start(t, nil, serveHTTP(t, func(http.ResponseWriter, *http.Request) {}))
	for range 3 {
		_, _ = do(t, client(t), request(t, "GET", "http://"+s.addr+limitedPath, nil))
	}
	wasReset := func(fields string) bool {
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		defer c.Close()
		_, _ = io.WriteString(c, "POST "+limitedPath+" HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n5\r\nhello\r\n")
		if all, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 429 ") {
			t.Errorf("%q: %q %v", fields, all, err)
		}
		_, _ = io.WriteString(c, "5\r\nworld\r\n")
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err != nil || rawhttp.WasReset(c)
	}
	for _, fields := range []string{"Transfer-Encoding: chunked\r\n", "Content-Length: 1000000\r\n", "Expect: 100-continue\r\nContent-Length: 26\r\n"} {
		again := 5 // it has a second, which a slow machine may need for something else
		for again > 0 && wasReset(fields) {
			again--
		}
		if again == 0 {
			t.Errorf("%q: the client was reset", fields)
		}
	}
}

// An answer that comes before the end of the body is what the client gets, though it may
// still be sending.
func TestEarlyAnswers(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge"
	var mu sync.Mutex
	conns := 0
	s := start(t, nil, serveRaw(t, func(c net.Conn, n int) {
		mu.Lock()
		conns = n
		mu.Unlock()
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, answer)
			if req.URL.Path == "/closes" {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
		}
	}))
	const tries = 5
	for _, path := range []string{"/closes", "/reads"} {
		for _, framing := range []string{"Content-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nf4240\r\n", "Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"} {
			for range tries {
				c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
				_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\n%s", path, framing)
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || resp.StatusCode != 413 || !resp.Close {
					t.Errorf("%s %q: %v %v", path, framing, resp, err)
				}
				c.Close()
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if conns != 6*tries { // none of them may be used again: the server expects the rest of the body
		t.Errorf("%d connections for %d uploads", conns, 6*tries)
	}
}

// What a server does wrong during an upload is not the client's fault.
func TestNonsenseDuringUploads(t *testing.T) {
	t.Parallel()
	for answer, reason := range map[string]string{"nonsense\r\n": "malformed", "": "closed"} {
		s := start(t, nil, serveRaw(t, func(c net.Conn, _ int) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, answer)
		}))
		c := rawhttp.DialFrom(t, "127.0.0.1", s.addr)
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhello")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusBadGateway || !resp.Close || s.Stats().Failures[reason] != 1 || s.service.Bad()["timeout"] != 0 {
			t.Errorf("%q: %v %v %+v", answer, resp, err, s.Stats())
		}
	}
}

// A client that stops in the middle of a head or of a body gets 408, and the app is not to
// blame.
func TestSlowUploads(t *testing.T) {
	t.Parallel()
	// Long enough for a busy machine to write an answer, which has as long as a body.
	s := start(t, func(o *standOptions) { o.limits.Head, o.limits.Write = 2*time.Second, 2*time.Second }, serveRaw(t, echo))
	var clients sync.WaitGroup
	for _, stream := range []string{
		"POST /a HTTP/1.1\r\nHost: a\r\nContent-Le", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y", "POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
	} {
		clients.Go(func() {
			got, err := exchangeRaw(t, s.addr, stream)
			if err != nil || !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, "Connection: close\r\n") {
				t.Errorf("%q: %q %v", stream, got, err)
			}
		})
	}
	clients.Wait()
	if st, pool := s.Stats(), s.pool.Stats().Servers[0]; pool.Failures != 0 || pool.InUse != 0 || st.Failures["closed"]+st.Failures["timeout"] != 0 || s.service.Bad()["timeout"] != 6 {
		t.Errorf("%+v %+v %v", st, pool, s.service.Bad())
	}
}

// Uploads that the app has read to their end leave their connection to the next one.
func TestUploadsShareConnections(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *standOptions) { o.finishTime = time.Hour }, serveRaw(t, echo)) // as long as a goroutine waits for a processor
	k := &talker{t: t, addr: s.addr}
	for i := range 300 {
		more := "Content-Length: 20000\r\n\r\n" + strings.Repeat("x", 20_000)
		if i%2 == 0 {
			more = "Transfer-Encoding: chunked\r\n\r\n4e20\r\n" + strings.Repeat("x", 20_000) + "\r\n0\r\n\r\n"
		}
		_, _ = io.WriteString(k.dial(), "POST /a HTTP/1.1\r\nHost: a\r\n"+more)
		resp, err := http.ReadResponse(k.in, nil)
		must(t, err)
		if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || string(body) != "/a" || resp.Close {
			t.Fatalf("%d: %v %q %v", i, resp, body, err)
		}
		rawhttp.Eventually(t, func() bool { return s.pool.Stats().Servers[0].InUse == 0 }) // it is back after the answer
	}
	if pool := s.pool.Stats().Servers[0]; pool.Dials != 1 {
		t.Errorf("%+v", pool)
	}
}

// An upload whose last write ends after the answer came is waited for.
func TestUploadEndsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &upload{done: make(chan struct{}), started: true, finishTime: finishTime} // without an upstream that it could interrupt
		u.complete.Store(true)
		go func() {
			time.Sleep(finishTime / 2)
			u.sent = true
			close(u.done)
		}()
		if u.finish(); !u.sent {
			t.Error("was not waited for")
		}
	})
}
