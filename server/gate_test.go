package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
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

var tcpPeer = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}

// unlimited is a server whose rule admits everything and counts it exactly.
func unlimited(t testing.TB) *Server {
	set := perIP()
	set.Rules[0].Limit.Burst = 1 << 40
	s, err := New(newConfig(t, set))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// statuses serves the pieces and returns the status of each answer, and how
// many requests were charged.
func statuses(t testing.TB, s *Server, pieces ...[]byte) (all []int, charged uint64) {
	t.Helper()
	before := s.requests()
	sc := &script{pieces: pieces}
	tr := s.traffic[0]
	c := tr.conns.wrap(sc)
	if !tr.conns.admit(c) {
		t.Fatal("not admitted")
	}
	tr.serve(c)
	all = statusesIn(sc.out.Bytes())
	after := s.requests()
	return all, after[outcomeAllow] - before[outcomeAllow] + after[outcomeDeny] - before[outcomeDeny]
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

// pieces cuts a stream: whole, byte by byte, then at random.
func cut(stream string, how int) [][]byte {
	var all [][]byte
	rng := rand.New(rand.NewPCG(uint64(how), 1))
	for rest := []byte(stream); len(rest) > 0; {
		n := len(rest)
		switch {
		case how == 1:
			n = 1
		case how > 1:
			n = 1 + rng.IntN(min(len(rest), 40))
		}
		all = append(all, bytes.Clone(rest[:n]))
		rest = rest[n:]
	}
	return all
}

// Every stream of the corpus is answered as RFC 9112 says, no matter how it is
// cut into reads, and 200s are what was charged.
func TestCorpus(t *testing.T) {
	t.Parallel()
	s := unlimited(t)
	for _, it := range corpus() {
		ways := 4
		if len(it.stream) > 1<<20 {
			ways = 1
		}
		for how := range ways {
			all, charged := statuses(t, s, cut(it.stream, how)...)
			oks := countOKs(all)
			early := how > 0 && it.body && oks == it.oks+1
			if oks != it.oks && !early {
				t.Errorf("%s, cut %d: %.120q: %v, want %d times 200", it.name, how, it.stream, all, it.oks)
			}
			if uint64(oks) != charged {
				t.Errorf("%s, cut %d: %.120q: %d times 200, and %d charged", it.name, how, it.stream, oks, charged)
			}
			for i, status := range all {
				if status != 200 && i != len(all)-1 {
					t.Errorf("%s, cut %d: %.120q: answered on after a refusal: %v", it.name, how, it.stream, all)
				}
			}
			if n := strings.Count(it.stream, plainRequest); strings.HasSuffix(it.name, "next") && n > 0 && len(all) == 0 {
				t.Errorf("%s, cut %d: %.120q: no answer", it.name, how, it.stream)
			}
		}
		if want := reference(it.stream); it.oks > want {
			t.Errorf("%s: %.120q: the reference reads %d requests, the table says %d", it.name, it.stream, want, it.oks)
		}
	}
}

// The same over real sockets.
func TestCorpusOverSockets(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1 << 40
	s := start(t, set)
	total := 0
	for _, it := range corpus() {
		oks := countOKs(overSocket(t, s.addr, it.stream))
		total += oks
		if oks != it.oks && !(it.body && oks == it.oks+1) {
			t.Errorf("%s: %.120q: %d times 200, want %d", it.name, it.stream, oks, it.oks)
		}
	}
	if n := s.requests(); n[outcomeAllow] != uint64(total) || n[outcomeDeny] != 0 {
		t.Errorf("%d times 200 and %v charged", total, n)
	}
	if st := s.limiter.Rules()[0].Stats(); sum(st.Allowed[:]) != uint64(total) {
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
		text   *violation
	}{
		{"GET / HTTP/1.1\nHost: a\r\n\r\n", "framing", errBareLF},
		{"\n" + plainRequest, "framing", errBareLF},
		{"\r\n\r\n" + plainRequest, "malformed", errBlankLines},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", "framing", errFolded},
		{"GET / HTTP/1.1\r\nHost: a\r\nX y: a\r\n\r\n", "malformed", errFieldName},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "framing", errTwoLengths},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n", "malformed", errLength},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "framing", errCoding},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "framing", errLengthCoding},
		{"POST / HTTP/1.1\r\nHost: a\r\nConnection: " + strings.Repeat("x,", 200) + "\r\n\r\n", "malformed", errConnection},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\n", "malformed", errChunkSize},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;\x00\r\n", "malformed", errChunkLine},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "malformed", errChunkEnd},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: a\r\n", 2000), "malformed", errChunkOverhead},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\x00\r\n", "malformed", errTrailer},
	} {
		for how := range 3 {
			s := unlimited(t)
			all, _ := statuses(t, s, cut(plainRequest+c.stream, how)...)
			early := how > 0 && len(all) == 2 // the body came after the answer
			if len(all) != 2 || all[1] != 400 && !early {
				t.Errorf("%s, cut %d: %v", c.text, how, all)
			}
			for _, f := range s.faults.all() {
				if n := f.count.Load(); n != 0 && f.reason != c.reason || n != 1 && f.reason == c.reason && !early {
					t.Errorf("%s, cut %d: reason %s counted %d times", c.text, how, f.reason, n)
				}
			}
		}
	}
}

// The gate by itself, without fasthttp behind it, which checks some of this
// again: what it says, how much it lets pass, and that it ends the stream.
func TestGateAlone(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	const chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		pass, stop string // what may pass, and what must not
		want       *violation
	}{
		{"GET / HTTP/1.1\r\nHost: a", "\n\r\n", errBareLF},
		{"GET / HTTP/1.1\r\nHost: a\r\n", "\n", errBareLF},
		{post + " X: a\r", "\n\r\n", errFolded},
		{post + "X y: a\r", "\n\r\n", errFieldName},
		{post + "Content-Length: 1\r\nContent-Length: 1\r", "\n\r\nx", errTwoLengths},
		{post + "Content-Length: 1\r\nX: y\r\ncontent-length: 0\r", "\n\r\nx", errTwoLengths},
		{post + "Content-Length: 1:\r", "\n\r\n", errLength},
		{post + "Content-Length: /\r", "\n\r\n", errLength},
		{post + "Content-Length: 1234567890123456789\r", "\n\r\n", errLength},
		{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r", "\n\r\n", errCoding},
		{post + "Transfer-Encoding: identity\r", "\n\r\n", errCoding},
		{post + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r", "\n", errLengthCoding},
		{post + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r", "\n", errLengthCoding},
		{chunked + "1\r\nab\r", "\n", errChunkEnd},
		{chunked + "1\r\na", "\n", errChunkEnd},
		{chunked + "1\r\naX\r", "\n0\r\n\r\n", errChunkEnd},
		{chunked + "g\r", "\n", errChunkSize},
		{chunked + "1000000000000000\r", "\n", errChunkSize},
		{chunked, "5;" + strings.Repeat("x", 300), errChunkLine}, // the end of the line is not waited for
		{chunked + "0\r\nX: \x01\r", "\n\r\n", errTrailer},
		{chunked + "0\r\nX\r", "\n\r\n", errFieldName},
		{chunked + "0\r\n a: b\r", "\n\r\n", errFolded},
		{post + "Connection: x , CLOSE\r\n\r\n", plainRequest, nil},
		{post + "Connection: close\r\nContent-Length: 3\r\n\r\nabc", plainRequest, nil},
		{post + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", plainRequest, nil},
	} {
		var g gate
		before := plainRequest
		if n := g.pass([]byte(before + c.pass + c.stop)); n != len(before+c.pass) {
			t.Errorf("%q, %q: %d bytes too many pass", c.pass, c.stop, n-len(before+c.pass))
		}
		over, err := g.over()
		var end error
		if end = io.EOF; c.want != nil {
			end = c.want
		}
		if !over || g.problem != c.want || !errors.Is(err, end) {
			t.Errorf("%q, %q: %v, %v, want %v", c.pass, c.stop, over, err, c.want)
		}
		if n := g.pass([]byte(plainRequest)); n != 0 {
			t.Errorf("%q, %q: the stream goes on", c.pass, c.stop)
		}
		if c.want != nil && g.wrong != 2 || c.want == nil && g.last != 2 {
			t.Errorf("%q, %q: message %d is wrong, %d the last", c.pass, c.stop, g.wrong, g.last)
		}
	}
}

// A connection ends with the request that says so, and the answer says so too,
// however it is spelt.
func TestConnectionCloseIsAnnounced(t *testing.T) {
	t.Parallel()
	s := start(t, perIP())
	for _, v := range []string{"close", "Close", "keep-alive, close", "close\r\nConnection: keep-alive"} {
		all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: "+v+"\r\n\r\n"+plainRequest)
		if len(all) != 1 || !all[0].Close {
			t.Errorf("%q: %d answers, close %v", v, len(all), all[0].Close)
		}
	}
}

// What the gate saw in a body counts, even where nobody reads the body.
func TestViolationInABodyThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := unlimited(t)
	tr := s.traffic[0]
	c := tr.conns.wrap(&script{})
	var g gate
	g.pass([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\n"))
	c.gate = g
	var ctx fasthttp.RequestCtx
	ctx.Init2(c, nil, false)
	if err := ctx.Request.Header.Read(bufio.NewReader(strings.NewReader(plainRequest))); err != nil {
		t.Fatal(err)
	}
	tr.handle(&ctx)
	if ctx.Response.StatusCode() != 400 || !ctx.Response.ConnectionClose() {
		t.Errorf("got %d", ctx.Response.StatusCode())
	}
}

// A line that is longer than what is kept of it means the same in one piece
// and in many.
func TestGateIsTheSameForEveryCut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, lineKept - 20, lineKept - 3, lineKept - 2, lineKept - 1, lineKept, lineKept + 1, 2 * lineKept, 5000} {
		for _, line := range []string{
			strings.Repeat("n", n) + ": v", "X: " + strings.Repeat("v", n), strings.Repeat("n", n), strings.Repeat("n", n) + " : v",
			"Connection: " + strings.Repeat(" ", n) + "close", "Content-Length: " + strings.Repeat("0", n), "Content-Length:" + strings.Repeat(" ", n) + "0",
			"Transfer-Encoding: chunked" + strings.Repeat(" ", n), "X: " + strings.Repeat("v", n) + "\r",
		} {
			stream := "GET / HTTP/1.1\r\n" + line + "\r\nX: y\r\n\r\n0\r\n\r\n"
			var first string
			for how := range 6 {
				var g gate
				passed := 0
				for _, p := range cut(stream, how) {
					passed += g.pass(p)
				}
				got := fmt.Sprint(g.state, g.problem, g.heads, g.last)
				if how == 0 {
					first = got
				}
				if got != first {
					t.Errorf("%d, %.40q, cut %d: %s, in one piece %s", n, line, how, got, first)
				}
				if cap(g.kept) > 2*lineKept {
					t.Errorf("%d bytes are kept", cap(g.kept))
				}
			}
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
