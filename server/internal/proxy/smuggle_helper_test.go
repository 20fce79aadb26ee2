package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/streams"
)

// loggingServer is an upstream that keeps the bytes of each of its connections, and answers
// what net/http reads in them with an empty 200.
type loggingServer struct {
	mu            sync.Mutex
	logs          map[net.Conn]*bytes.Buffer // since the last call of take
	begun, closed uint64                     // connections
}

// take returns what has come on each connection since the last call.
func (s *loggingServer) take() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, log := range s.logs {
		texts = append(texts, log.String())
	}
	s.logs = make(map[net.Conn]*bytes.Buffer)
	return texts
}

func (s *loggingServer) serve(c net.Conn) {
	s.mu.Lock()
	s.begun++
	s.mu.Unlock()
	in := bufio.NewReader(readerFunc(func(p []byte) (int, error) {
		n, err := c.Read(p)
		s.mu.Lock()
		defer s.mu.Unlock()
		if n > 0 && s.logs[c] == nil {
			s.logs[c] = new(bytes.Buffer)
		}
		if n > 0 {
			s.logs[c].Write(p[:n])
		}
		return n, err
	}))
	for s.answer(c, in) == nil {
	}
	_, _ = io.Copy(io.Discard, in) // all is kept until the connection ends
	s.mu.Lock()
	s.closed++
	s.mu.Unlock()
}

func (s *loggingServer) answer(c net.Conn, in *bufio.Reader) error {
	req, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	if req.Header.Get("Expect") != "" {
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	if _, err = io.Copy(io.Discard, req.Body); err == nil {
		_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// smuggling is a proxy whose upstream keeps what it is sent. Each stream has connections of
// its own.
type smuggling struct {
	*stand
	app *loggingServer
}

func startSmuggling(t testing.TB, change func(*standOptions)) *smuggling {
	app := &loggingServer{logs: make(map[net.Conn]*bytes.Buffer)}
	return &smuggling{stand: start(t, change, serveRaw(t, func(c net.Conn, _ int) { app.serve(c) })), app: app}
}

// send sends a stream from a client that ends its side, and returns the answers.
func (s *smuggling) send(t testing.TB, pieces ...[]byte) (answers []byte) {
	sc := &scripted{pieces: pieces}
	if !s.front.Listeners[0].ServeConn(sc) {
		t.Fatal("not admitted")
	}
	return sc.out.Bytes()
}

// scripted is a client's connection, which delivers a stream in pieces.
type scripted struct {
	net.Conn
	pieces [][]byte
	mu     sync.Mutex
	late   bool // a deadline has passed
	out    bytes.Buffer
}

func (s *scripted) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late {
		return 0, os.ErrDeadlineExceeded
	}
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

func (s *scripted) SetReadDeadline(d time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = !d.IsZero() && d.Before(time.Now())
	return nil
}
func (s *scripted) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *scripted) Close() error                     { return nil }
func (s *scripted) LocalAddr() net.Addr              { return scriptedPeer }
func (s *scripted) RemoteAddr() net.Addr             { return scriptedPeer }
func (s *scripted) SetDeadline(d time.Time) error    { return s.SetReadDeadline(d) }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }

var scriptedPeer = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1}

// verdict is what came of a stream.
type verdict struct {
	answers  []int // statuses
	whole    []streams.Request
	partial  []streams.Request // whose bodies were not whole
	admitted uint64            // as the rules have counted
	lent     uint64            // as the pool has
}

var finalStatus = regexp.MustCompile(`HTTP/1\.1 ([2-5]\d\d) `)

// judge sends a stream, checks all that the upstream got of it, and returns the rest.
func (s *smuggling) judge(t testing.TB, pieces ...[]byte) (v verdict) {
	before, lent := s.service.Requests(), s.pool.Stats().Servers[0].Requests
	answers := s.send(t, pieces...)
	v.admitted = s.service.Requests().Allowed - before.Allowed
	for _, m := range finalStatus.FindAllSubmatch(answers, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		v.answers = append(v.answers, n)
	}
	for s.underWay() {
		runtime.Gosched()
	}
	v.lent = s.pool.Stats().Servers[0].Requests - lent
	texts := s.app.take()
	for _, text := range texts {
		text = strings.ReplaceAll(text, "\r\nHost: \r\n", "\r\nHost: -\r\n") // of HTTP/1.0
		all, rest, early := streams.Requests(text)
		if early {
			v.partial = append(v.partial, all[len(all)-1])
			all = all[:len(all)-1]
		} else if rest != "" {
			t.Errorf("the upstream gets what is no request: %.300q", rest)
		}
		v.whole = append(v.whole, all...)
		in := bufio.NewReader(strings.NewReader(text))
		for i := range all {
			s.sameAsHTTP(t, in, &all[i])
		}
	}
	for i := range v.whole {
		checkForwarded(t, &v.whole[i])
	}
	for i := range v.partial {
		checkForwarded(t, &v.partial[i])
	}
	return v
}

// underWay reports whether the upstream has not seen all that the proxy has done.
func (s *smuggling) underWay() bool {
	pool := s.pool.Stats().Servers[0]
	s.app.mu.Lock()
	defer s.app.mu.Unlock()
	return s.app.begun != pool.Dials || s.app.begun-s.app.closed != uint64(pool.Idle)
}

// sameAsHTTP checks that net/http reads the same.
func (s *smuggling) sameAsHTTP(t testing.TB, in *bufio.Reader, r *streams.Request) {
	req, err := http.ReadRequest(in)
	if err != nil {
		t.Errorf("net/http does not read %+v: %v", r, err)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || req.Method != r.Method || req.RequestURI != r.Target || string(body) != r.Body {
		t.Errorf("net/http reads %s %s with %d bytes (%v), the reference %+v", req.Method, req.RequestURI, len(body), err, r)
	}
}

// hops are fields that may not be passed on.
var hops = []string{"keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "http2-settings"}

// checkForwarded checks what holds for all requests that an upstream gets of an untrusted
// client.
func checkForwarded(t testing.TB, r *streams.Request) {
	t.Helper()
	one := func(name, want string) {
		if v := r.Fields[name]; len(v) != 1 || want != "" && v[0] != want {
			t.Errorf("%s: %q", name, v)
		}
	}
	if r.Target != "*" && !strings.HasPrefix(r.Target, "/") || r.Minor != 1 {
		t.Errorf("%s %s HTTP/1.%d", r.Method, r.Target, r.Minor)
	}
	if len(r.Fields["content-length"])+len(r.Fields["transfer-encoding"]) > 1 {
		t.Errorf("%q and %q", r.Fields["content-length"], r.Fields["transfer-encoding"])
	}
	if len(r.Fields["host"]) != 1 {
		t.Errorf("hosts %q", r.Fields["host"])
	}
	if r.Fields["host"][0] == "-" {
		r.Fields["x-forwarded-host"] = r.Fields["host"]
	}
	one("x-forwarded-for", "192.0.2.7")
	one("x-forwarded-proto", "http")
	one("forwarded", "")
	if len(r.Fields["host"]) == 1 && r.Fields["host"][0] != "" {
		one("x-forwarded-host", r.Fields["host"][0])
	}
	for _, hop := range hops {
		if v := r.Fields[hop]; v != nil {
			t.Errorf("%s: %q", hop, v)
		}
	}
	if v := r.Fields["connection"]; len(v) > 1 || len(v) == 1 && (v[0] != "Upgrade" || r.Fields["upgrade"] == nil) {
		t.Errorf("Connection: %q", v)
	}
	for name := range r.Fields {
		plain := strings.NewReplacer("_", "-", ".", "-").Replace(name)
		if plain != name && (strings.HasPrefix(plain, "x-forwarded-") || plain == "forwarded" || plain == "x-real-ip") || name == "x-real-ip" {
			t.Errorf("%s is passed on", name)
		}
	}
}
