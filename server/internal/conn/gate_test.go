package conn

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/http1"
)

const plainRequest = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"

// The gate alone, without fasthttp behind it, which checks some of this again: what it says, how much it lets
// pass, and that it ends the stream.
func TestGateAlone(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	const chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		pass, stop string // what may pass, and what must not
		want       *Violation
	}{
		{"GET / HTTP/1.1\r\nHost: a", "\n\r\n", http1.ErrBareLF},
		{"GET / HTTP/1.1\r\nHost: a\r\n", "\n", http1.ErrBareLF},
		{post + " X: a\r", "\n\r\n", http1.ErrFolded},
		{post + "X y: a\r", "\n\r\n", http1.ErrFieldName},
		{post + "Content-Length: 1\r\nContent-Length: 1\r", "\n\r\nx", http1.ErrTwoLengths},
		{post + "Content-Length: 1\r\nX: y\r\ncontent-length: 0\r", "\n\r\nx", http1.ErrTwoLengths},
		{post + "Content-Length: 1:\r", "\n\r\n", http1.ErrLength},
		{post + "Content-Length: /\r", "\n\r\n", http1.ErrLength},
		{post + "Content-Length: 1234567890123456789\r", "\n\r\n", http1.ErrLength},
		{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r", "\n\r\n", http1.ErrCoding},
		{post + "Transfer-Encoding: identity\r", "\n\r\n", http1.ErrCoding},
		{post + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r", "\n", http1.ErrLengthCoding},
		{post + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r", "\n", http1.ErrLengthCoding},
		{chunked + "1\r\nab\r", "\n", http1.ErrChunkEnd},
		{chunked + "1\r\na", "\n", http1.ErrChunkEnd},
		{chunked + "1\r\naX\r", "\n0\r\n\r\n", http1.ErrChunkEnd},
		{chunked + "g\r", "\n", http1.ErrChunkSize},
		{chunked + "1000000000000000\r", "\n", http1.ErrChunkSize},
		{chunked, "5;" + strings.Repeat("x", 300), http1.ErrChunkLine}, // the end of the line is not waited for
		{chunked + "0\r\nX: \x01\r", "\n\r\n", http1.ErrTrailer},
		{chunked + "0\r\nX\r", "\n\r\n", http1.ErrFieldName},
		{chunked + "0\r\n a: b\r", "\n\r\n", http1.ErrFolded},
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

// What the gate saw in a body counts, even where nobody reads the body.
func TestViolationInABodyThatNobodyReads(t *testing.T) {
	t.Parallel()
	c := newConns(1, 1).wrap(quietFrom("192.0.2.1"))
	c.in.gate.pass([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\n"))
	if v, _ := c.BeginRequest(); v != http1.ErrChunkSize {
		t.Errorf("got %v", v)
	}
}

// BenchmarkGate is what the gate costs for a browser's request of 8 lines.
func BenchmarkGate(b *testing.B) {
	request := []byte("GET / HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0)\r\nAccept: text/html,*/*\r\nAccept-Language: en\r\nAccept-Encoding: gzip, br\r\nCookie: a=b\r\nConnection: keep-alive\r\n\r\n")
	var g gate
	for b.Loop() {
		if g.pass(request) != len(request) {
			b.Fatal(g.problem)
		}
	}
}
