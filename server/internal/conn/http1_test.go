package conn

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/valyala/fasthttp"
)

// FuzzRequest compares package http1 with the gate and with fasthttp: what it takes of
// a connection they take, read the same in it, and find the same end; what
// the gate refuses it refuses with the same error, whatever pieces arrive.
func FuzzRequest(f *testing.F) {
	const get, post = "GET / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\n"
	const chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
	for _, s := range []string{
		simple, browser, "\r\n" + simple + simple, "\r\n\r\n" + simple, "\n" + simple, "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nConnection: keep-alive\r\nHost:\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://b/c?d HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1\r\nConnection: x, close\r\n\r\n" + simple, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n",
		post + "Content-Length: 5\r\n\r\nhello" + simple, post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		post + "Content-Length: +5\r\n\r\n", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", post + "Transfer-Encoding : chunked\r\n\r\n", post + "Transfer-Encoding:\r\n chunked\r\n\r\n", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
		post + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", get + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", get + "Trailer: X\r\n\r\n", get + "X: a\x00\n\r\n", get + "X: \xe9\t\r\n\r\n", get + "X y: a\n\r\n",
		get + "Connection:" + strings.Repeat(" ", 250) + "close\r\n\r\n", get + strings.Repeat("n", 256) + ": a\r\n\r\n", get + "Content-Length:" + strings.Repeat(" ", 240) + "5\r\n\r\n",
		chunked + "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n" + simple, chunked + "5\r\nhello0\r\n\r\n", chunked + "5 \r\n", chunked + "5;" + strings.Repeat("x", 260) + "\r\n", chunked + "0\r\nX:" + strings.Repeat(" ", 260) + "\r\n\r\n",
		chunked + "0\r\n" + strings.Repeat("X: aaa\r\n", 257) + "\r\n", chunked + "0\r\n X: y\r\n\r\n", chunked + "0\nX: y\r\n\r\n", chunked + "0\r\nX: \x01\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var r http1.Request
		n, err := r.Parse(stream)
		if n == 0 {
			checkRefused(t, stream, enough(t, stream, 0, err), err)
			return
		}
		if at := enough(t, stream, n, nil); at != n {
			t.Fatalf("%q: %d bytes were enough for %d", stream, at, n)
		}
		g := checkTaken(t, &r, stream[:n])
		checkBodies(t, &r, g, stream[n:])
	})
}

// enough returns of how many bytes Parse says what it says of all. Of fewer it says nothing.
func enough(t *testing.T, stream []byte, n int, err error) int {
	for i := range len(stream) + 1 {
		m, e := new(http1.Request).Parse(bytes.Clone(stream[:i]))
		if m == 0 && e == nil {
			continue
		}
		for j := i; j <= len(stream); j++ {
			if m, e := new(http1.Request).Parse(stream[:j]); m != n || !errors.Is(e, err) {
				t.Fatalf("%q: %d, %v, but of %d bytes %d, %v", stream, n, err, j, m, e)
			}
		}
		return i
	}
	return len(stream) + 1
}

// checkRefused asserts that the gate has refused nothing that Parse has not, and
// that where both refuse at the same byte, they say the same.
func checkRefused(t *testing.T, stream []byte, at int, err error) {
	var g gate
	for i := range stream {
		g.pass([]byte{stream[i]})
		switch {
		case g.problem != nil && i+1 < at, g.problem != nil && i+1 == at && !errors.Is(err, g.problem):
			t.Fatalf("%q: the gate says %v after %d bytes, http1 %v after %d", stream, g.problem, i+1, err, at)
		case g.problem == nil && g.state > gateField && i+1 < at:
			t.Fatalf("%q: the gate takes the head of %d bytes, http1 wants more", stream, i+1)
		case g.problem != nil || g.state > gateField:
			return
		}
	}
}

// checkTaken asserts that the gate and fasthttp read the same in the head. It returns
// the gate that has.
func checkTaken(t *testing.T, r *http1.Request, head []byte) *gate {
	var g gate
	if passed := g.pass(bytes.Clone(head)); passed != len(head) || g.problem != nil || g.heads != 1 {
		t.Fatalf("%q: the gate lets %d of %d bytes pass: %v", head, passed, len(head), g.problem)
	}
	if g.chunked != (r.Length == http1.Chunked) || max(r.Length, 0) != g.left || g.forwarded != r.Forwarded || g.lastOne && !r.Close || r.Minor == 1 && r.Close != g.lastOne {
		t.Fatalf("%q: the gate notes %+v, http1 %+v", head, g, r)
	}
	var parsed fasthttp.RequestHeader
	in := bufio.NewReaderSize(bytes.NewReader(head), len(head)+16)
	if err := parsed.Read(in); err != nil || in.Buffered() > 0 {
		if err != nil && bytes.Contains(bytes.ToLower(r.Fields), []byte("trailer:")) {
			return &g // one that names what fasthttp does not take in a trailer
		}
		t.Fatalf("%q: fasthttp says %v, and leaves %d bytes", head, err, in.Buffered())
	}
	length := int64(parsed.ContentLength())
	if length == -2 { // none
		length = 0
	}
	if !bytes.Equal(parsed.Method(), r.Method) || !bytes.Equal(parsed.RequestURI(), r.Target) || !bytes.Equal(parsed.Host(), r.Host) ||
		string(parsed.RawHeaders()) != string(r.Fields)+"\r\n" && len(r.Fields) > 0 || string(parsed.Protocol()) != "HTTP/1."+string(rune('0'+r.Minor)) || length != r.Length {
		t.Fatalf("%q: fasthttp reads\n%q, http1\n%+v", head, parsed.String(), r)
	}
	return &g
}

// checkBodies asserts that the gate finds the same end of the body.
func checkBodies(t *testing.T, r *http1.Request, g *gate, p []byte) {
	end := 0 // what the gate reads of the message
	for end < len(p) && g.state >= gateBody && g.state <= gateTrailer {
		g.pass([]byte{p[end]})
		end++
	}
	var b http1.Body
	b.Begin(r.Length)
	at, wrong := 0, (*http1.Error)(nil)
	for !b.Done() {
		skip, n, err := b.Next(p[at:])
		if errors.As(err, &wrong) || skip+n == 0 {
			break
		}
		at += skip + n
	}
	switch {
	case g.problem != nil && wrong == nil, wrong != nil && (g.state == gateRequestLine || g.state == gateClosed):
		t.Fatalf("%q: the gate says %v, http1 %v", p, g.problem, wrong)
	case g.problem != nil && g.problem != wrong && wrong != http1.ErrChunkOverhead:
		t.Fatalf("%q: the gate says %v, http1 %v", p, g.problem, wrong)
	case wrong == nil && (b.Done() != (g.state == gateRequestLine || g.state == gateClosed) || b.Done() && at != end):
		t.Fatalf("%q: the gate reads %d bytes of the body, http1 %d: %v", p, end, at, b.Done())
	}
}
