package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/streams"
	"github.com/fastlimit/fastlimit/policy"
)

// script is a connection that delivers a stream in pieces and keeps what is
// answered.
type script struct {
	pieces [][]byte
	out    bytes.Buffer
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

func (s *script) Write(p []byte) (int, error)      { return s.out.Write(p) }
func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return tcpPeer }
func (s *script) RemoteAddr() net.Addr             { return tcpPeer }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

var tcpPeer = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}

// unlimited is a server whose rule admits everything and counts it exactly.
func unlimited(t testing.TB) *Server {
	s, err := New(newConfig(t, generous()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// generous is one rule that admits everything and counts it exactly.
func generous() policy.Settings {
	set := perSecond()
	set.Rules[0].Limit.Burst = 1 << 40
	return set
}

// statuses serves the pieces and returns the status of each answer, and how
// many requests were charged.
func statuses(t testing.TB, s *Server, pieces ...[]byte) (all []int, charged uint64) {
	t.Helper()
	before := s.decide.Requests()
	sc := &script{pieces: pieces}
	if !s.traffic.Listeners[0].ServeConn(sc) {
		t.Fatal("not admitted")
	}
	all = statusesIn(sc.out.Bytes())
	after := s.decide.Requests()
	return all, after.Allowed - before.Allowed + after.Denied - before.Denied
}

// finalStatus finds answers; ReadResponse would have to know the methods, as an
// answer to HEAD has no body. No body of ours looks like a status line.
var finalStatus = regexp.MustCompile(`HTTP/1\.1 ([2-5]\d\d) `)

func statusesIn(answers []byte) (all []int) {
	for _, m := range finalStatus.FindAllSubmatch(answers, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		all = append(all, n)
	}
	return all
}

func countOKs(all []int) (n int) {
	for _, status := range all {
		if status == http.StatusOK {
			n++
		}
	}
	return n
}

// Every stream of the corpus is answered as RFC 9112 says, no matter how it is
// cut into reads, and 200s are what was charged.
func TestCorpus(t *testing.T) {
	t.Parallel()
	s := unlimited(t)
	for _, it := range streams.Corpus() {
		ways := 4
		if len(it.Stream) > 1<<20 {
			ways = 1
		}
		for how := range ways {
			all, charged := statuses(t, s, cut(it.Stream, how)...)
			oks := countOKs(all)
			early := how > 0 && it.Body && oks == it.OKs+1
			if oks != it.OKs && !early {
				t.Errorf("%s, cut %d: %.120q: %v, want %d times 200", it.Name, how, it.Stream, all, it.OKs)
			}
			if uint64(oks) != charged {
				t.Errorf("%s, cut %d: %.120q: %d times 200, and %d charged", it.Name, how, it.Stream, oks, charged)
			}
			for i, status := range all {
				if status != 200 && i != len(all)-1 {
					t.Errorf("%s, cut %d: %.120q: answered on after a refusal: %v", it.Name, how, it.Stream, all)
				}
			}
			if n := strings.Count(it.Stream, streams.Plain); strings.HasSuffix(it.Name, "next") && n > 0 && len(all) == 0 {
				t.Errorf("%s, cut %d: %.120q: no answer", it.Name, how, it.Stream)
			}
		}
		if want, _ := streams.Count(it.Stream); it.OKs > want {
			t.Errorf("%s: %.120q: the reference reads %d requests, the table says %d", it.Name, it.Stream, want, it.OKs)
		}
	}
}

// The same over real sockets.
func TestCorpusOverSockets(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Burst = 1 << 40
	s := start(t, set, func(c *Config) { c.BadRequests = IgnoreBadRequests }) // what is counted is what is served
	total := 0
	for _, it := range streams.Corpus() {
		oks := countOKs(overSocket(t, s.addr, it.Stream))
		total += oks
		if oks != it.OKs && !(it.Body && oks == it.OKs+1) {
			t.Errorf("%s: %.120q: %d times 200, want %d", it.Name, it.Stream, oks, it.OKs)
		}
	}
	if n := s.decide.Requests(); n.Allowed != uint64(total) || n.Denied != 0 {
		t.Errorf("%d times 200 and %v charged", total, n)
	}
	if st := s.config().Limiter.Rules()[0].Stats(); sum(st.Allowed[:]) != uint64(total) {
		t.Errorf("%d times 200, and the rule counted %v", total, st.Allowed)
	}
}

func sum(all []uint64) (n uint64) {
	for _, v := range all {
		n += v
	}
	return n
}

// overSocket sends a stream, says that nothing follows, and returns the status
// of each answer.
func overSocket(t *testing.T, addr, stream string) []int {
	t.Helper()
	c := dial(t, addr).(*net.TCPConn)
	defer c.Close()
	go func() { // the server may refuse before it has read everything
		io.WriteString(c, stream)
		c.CloseWrite()
	}()
	answers, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%.120q: neither answered nor closed", stream)
	}
	return statusesIn(answers)
}

// A refusal tells what is wrong, is counted under its reason once, and is what
// the log says.
func TestGateNamesTheViolation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream string
		reason string
		text   string
	}{
		{"GET / HTTP/1.1\nHost: a\r\n\r\n", "framing", "a line ends without CR"},
		{"\n" + streams.Plain, "framing", "a line ends without CR"},
		{"\r\n\r\n" + streams.Plain, "malformed", "more than one empty line before a request"},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "framing", "a folded field line"},
		{"GET / HTTP/1.1\r\nHost: a\r\nX y: a\r\n\r\n", "malformed", "a field name that is not a token, or no colon after it"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "framing", "more than one Content-Length"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n", "malformed", "a Content-Length that is not a decimal number"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "framing", "a Transfer-Encoding other than one chunked"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "framing", "Content-Length with Transfer-Encoding"},
		{"POST / HTTP/1.1\r\nHost: a\r\nConnection: " + strings.Repeat("x,", 200) + "\r\n\r\n", "malformed", "an overlong Connection"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\n", "malformed", "a chunk size that is not a hexadecimal number"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;\x00\r\n", "malformed", "a malformed chunk extension"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "malformed", "no CRLF after a chunk"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: a\r\n", 2000), "malformed", "too many bytes of chunk extensions and trailers"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\x00\r\n", "malformed", "a control byte in a trailer"},
	} {
		for how := range 3 {
			s, logs := denyWith(t, generous())
			all, _ := statuses(t, s, cut(streams.Plain+c.stream, how)...)
			early := how > 0 && len(all) == 2 // the body came after the answer
			if len(all) != 2 || all[1] != 400 && !early {
				t.Errorf("%s, cut %d: %v", c.text, how, all)
			}
			for reason, n := range s.decide.Bad() {
				if n != 0 && reason != c.reason || n != 1 && reason == c.reason && !early {
					t.Errorf("%s, cut %d: reason %s counted %d times", c.text, how, reason, n)
				}
			}
			if s.endSecond(); !early && logs.Count(`error="`+c.text+`"`) != 1 {
				t.Errorf("%s, cut %d: not in the log:\n%s", c.text, how, logs)
			}
		}
	}
}

// A connection ends with the request that says so, and the answer says so too,
// however it is spelt.
func TestConnectionCloseIsAnnounced(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for _, v := range []string{"close", "Close", "keep-alive, close", "close\r\nConnection: keep-alive"} {
		all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: "+v+"\r\n\r\n"+streams.Plain)
		if len(all) != 1 || !all[0].Close {
			t.Errorf("%q: %d answers, close %v", v, len(all), all[0].Close)
		}
	}
}

// A body that has come to its end is whole, whatever follows it in the same
// read.
func TestBodyBeforeAViolation(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "Content-Length: 3\r\n\r\nabc",
	} {
		s := unlimited(t)
		all, _ := statuses(t, s, []byte("POST / HTTP/1.1\r\nHost: a\r\n"+body+"\nGET / HTTP/1.1\r\n"))
		if len(all) != 2 || all[0] != 200 || all[1] != 400 {
			t.Errorf("%q: %v", body, all)
		}
	}
}
