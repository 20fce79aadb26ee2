package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzResponse has net/http as another reader: what Parse and Body take of an answer,
// net/http takes too, and reads the same status, fields and body in it.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		ok + "Content-Length: 5\r\n\r\nhello", ok + "Content-Length: 5\r\n\r\nhello" + ok, ok + "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n", ok + "\r\nuntil the end",
		"HTTP/1.0 200\r\nConnection: keep-alive\r\nDate: now\r\n\r\nabc", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 304 \r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00", ok + "Connection: close\r\nSet-Cookie: a=b\r\nSet-Cookie: c=\xe9\r\nX:\t a \t\r\n\r\n",
		ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", ok + "Content-Length: 1\r\ncontent-length: 1\r\n\r\na", ok + "Content-Length: 1, 1\r\n\r\na", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n",
		ok + "Transfer-Encoding:\r\n chunked\r\n\r\n", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 1\n\na", ok + "Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		ok + "Pragma: no-cache\r\nContent-Length: 0\r\n\r\n", ok + "Transfer-Encoding: chunked\r\n\r\n400\r\n" + strings.Repeat("x", 1024) + "\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, stream []byte, head bool) {
		var r Response
		n, err := r.Parse(stream, head)
		checkPrefixes(t, stream, n, err, func(b []byte) (int, error) { return new(Response).Parse(b, head) })
		if n == 0 {
			return
		}
		checkLines(t, r.Fields)
		if r.Status < 200 {
			r.Close = true // net/http reads 101 as the last answer, and others with what follows
		}
		request := &http.Request{Method: http.MethodGet}
		if head {
			request.Method = http.MethodHead
		}
		other, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(stream)), request)
		if err != nil {
			if oddTrailer(r.Fields) {
				return
			}
			t.Fatalf("%q: net/http says %v", stream, err)
		}
		if other.StatusCode != r.Status || strings.TrimSpace(other.Status) != strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, r.Reason)) || other.ProtoMinor != r.Minor {
			t.Fatalf("%q: net/http reads %s %s", stream, other.Proto, other.Status)
		}
		if got, want := fieldsOf(r.Fields), headerOf(other.Header); !slices.Equal(got, want) {
			t.Fatalf("%q: fields %q, net/http reads %q", stream, got, want)
		}
		if !r.Close && other.Close && r.Minor == 1 {
			t.Fatalf("%q: net/http closes", stream)
		}
		payload, done, wrong := readBody(r.Length, stream[n:])
		theirs, err := io.ReadAll(other.Body)
		switch {
		case wrong != nil: // net/http is lenient
		case r.Status < 200 || r.Length == 0:
			if len(payload) != 0 || r.Status >= 200 && len(theirs) != 0 {
				t.Fatalf("%q: net/http reads a body of %d", stream, len(theirs))
			}
		case !bytes.Equal(payload, theirs) || (done || r.Length == UntilClose) != (err == nil):
			t.Fatalf("%q: body %q, net/http reads %q and %v", stream, payload, theirs, err)
		}
	})
}

// oddTrailer reports whether a Trailer announces what net/http refuses there.
func oddTrailer(fields []byte) bool {
	for l := (Lines{fields}); ; {
		name, _, _, ok := l.Next()
		if !ok {
			return false
		}
		if strings.EqualFold(string(name), "trailer") {
			return true
		}
	}
}

// readBody returns the payload of a body in one piece, and whether all of it is there.
func readBody(length int64, p []byte) (payload []byte, done bool, err error) {
	var b Body
	b.Begin(length)
	for {
		skip, n, err := b.Next(p)
		if err != nil || skip+n == 0 {
			return payload, b.Done(), err
		}
		payload = append(payload, p[skip:skip+n]...)
		p = p[skip+n:]
	}
}

// checkPrefixes asserts that what Parse said of all bytes it says of fewer of them,
// too, once it says anything.
func checkPrefixes(t *testing.T, stream []byte, n int, err error, parse func([]byte) (int, error)) {
	for i := range stream {
		m, e := parse(bytes.Clone(stream[:i]))
		if m == 0 && e == nil && (n == 0 || i < n) {
			continue
		}
		if m != n || !errors.Is(e, err) {
			t.Fatalf("%q: %d, %v, but of %d bytes %d, %v", stream, n, err, i, m, e)
		}
	}
}

// checkLines asserts that the field lines are what Lines walks, all of them.
func checkLines(t *testing.T, fields []byte) {
	var all []byte
	for l := (Lines{fields}); ; {
		name, value, line, ok := l.Next()
		if !ok {
			break
		}
		if len(name) == 0 || !allIn(name, &Token) || !isText(value) || string(line) != string(name)+":"+string(line[len(name)+1:len(line)-2])+"\r\n" ||
			strings.Trim(string(line[len(name)+1:len(line)-2]), " \t") != string(value) {
			t.Fatalf("%q: %q, %q, %q", fields, name, value, line)
		}
		all = append(all, line...)
	}
	if !bytes.Equal(all, fields) {
		t.Fatalf("%q: walked %q", fields, all)
	}
}

// unread are the fields that net/http removes or adds.
var unread = []string{"Transfer-Encoding", "Content-Length", "Connection", "Trailer", "Cache-Control", "Pragma"}

// fieldsOf are the fields in net/http's notation, sorted.
func fieldsOf(fields []byte) (all []string) {
	h := http.Header{}
	for l := (Lines{fields}); ; {
		name, value, _, ok := l.Next()
		if !ok {
			return headerOf(h)
		}
		h.Add(string(name), string(value))
	}
}

func headerOf(h http.Header) (all []string) {
	for name, values := range h {
		if !slices.Contains(unread, name) {
			all = append(all, fmt.Sprintf("%s=%q", name, values))
		}
	}
	slices.Sort(all)
	return all
}

// FuzzBody has another reader of chunks, which takes a body in one piece and knows
// no state. In whatever pieces it arrives, Body finds the same.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n", "1;a=b\r\nx\r\n1\r\ny\r\n000\r\nX: y\r\nHost: a\r\n\r\n", "A\r\n0123456789\r\n0\r\n\r\n", "2\r\n\r\n\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n",
		"5\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "0\r\nX : a\r\n\r\n", "0\r\n X: a\r\n\r\n", "0\r\nX: a\n\r\n", "1000000000000000\r\n", "5;\x00\r\nhello\r\n", "0\r\nX: \x7f\r\n\r\n", "0\r\nX:" + strings.Repeat(" ", 254) + "\r\n\r\n",
		"1;" + strings.Repeat("x", 253) + "\r\na\r\n0\r\n\r\n", strings.Repeat("1;"+strings.Repeat("x", 200)+"\r\na\r\n", 11) + "0\r\n\r\n", "0\r\n" + strings.Repeat("X: aaa\r\n", 257) + "\r\n", "\r\n0\r\n\r\n",
	} {
		for length := range int64(4) {
			f.Add([]byte(s), length-2, uint16(17))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, length int64, at uint16) {
		length = max(length, -2)
		payload, rest, how := collect(t, length, string(stream))
		check := func(got1, got2, got3 string) {
			if got1 != payload || got2 != rest || got3 != how {
				t.Fatalf("%d, %q: %q, %q, %q, in pieces %q, %q, %q", length, stream, payload, rest, how, got1, got2, got3)
			}
		}
		check(collect(t, length, strings.Split(string(stream), "")...))
		cut := min(int(at), len(stream))
		check(collect(t, length, string(stream[:cut]), string(stream[cut:])))
		word, _, _ := strings.Cut(how, " ")
		switch want, behind, good, whole := simpleBody(length, stream); {
		case good != (word == "done" || word == "more"), good && whole != (word == "done"):
			t.Fatalf("%d, %q: %s, the simple reader: good %v, whole %v", length, stream, how, good, whole)
		case whole && (payload != want || rest != behind):
			t.Fatalf("%d, %q: %q, %q, the simple reader: %q, %q", length, stream, payload, rest, want, behind)
		case good && !strings.HasPrefix(want, payload):
			t.Fatalf("%d, %q: %q, the simple reader: %q", length, stream, payload, want)
		}
	})
}

// simpleBody reads a body in one piece. good: nothing is wrong with it so far.
func simpleBody(length int64, stream []byte) (payload, rest string, good, whole bool) {
	s := string(stream)
	if length >= 0 {
		n := min(length, int64(len(s)))
		return s[:n], s[n:], true, n == length
	}
	if length == UntilClose {
		return s, "", true, false
	}
	overhead := 0
	for {
		line, more, found := strings.Cut(s, "\n")
		if !found {
			return payload, "", len(s) <= MaxLine, false
		}
		digits, extension, _ := strings.Cut(strings.TrimSuffix(line, "\r"), ";")
		size, err := strconv.ParseUint(digits, 16, 60)
		overhead += len(line) - len(digits) - 1
		if len(line) > MaxLine || !strings.HasSuffix(line, "\r") || err != nil || len(digits) > 15 || !simpleText(extension) || overhead > MaxTrailers {
			return payload, "", false, false
		}
		s = more
		if size == 0 {
			break
		}
		payload += s[:min(size, uint64(len(s)))]
		s = s[min(size, uint64(len(s))):]
		if s == "" || s == "\r" {
			return payload, "", true, false
		}
		if s, found = strings.CutPrefix(s, "\r\n"); !found {
			return payload, "", false, false
		}
	}
	for {
		line, more, found := strings.Cut(s, "\n")
		if !found {
			return payload, "", len(s) <= MaxLine, false
		}
		if line == "\r" {
			return payload, more, true, true
		}
		name, value, colon := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		overhead += len(line) + 1
		if len(line) > MaxLine || !strings.HasSuffix(line, "\r") || !colon || name == "" || strings.Trim(name, tokens) != "" || !simpleText(value) || overhead > MaxTrailers {
			return payload, "", false, false
		}
		s = more
	}
}

func simpleText(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
