package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// nonsense is an answer that no server should give, and what the client gets instead.
type nonsense struct {
	name   string
	method string // of the request; empty: GET
	more   string // field lines of the request
	answer string // @ is the marker of the request
	closes bool   // the server closes the connection then

	status int    // for the client
	reason string // under which the failure is counted; empty: it is none
	body   string // of the answer, if it is not a failure
	cut    bool   // the client sees that the answer is not whole
	kept   bool   // the server's connection is used again
}

// poison stands in what a server says unasked. No client may ever see it.
const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Marker: poison\r\n\r\npoison"

const okHead = "HTTP/1.1 200 OK\r\nX-Marker: @\r\n"

// nonsenses are built by class. Those of one class differ in what a lenient reader would
// make of them.
func nonsenses() (all []nonsense) {
	malformed := func(class string, answers ...string) {
		for i, a := range answers {
			all = append(all, nonsense{name: fmt.Sprintf("%s %d", class, i), answer: a, status: 502, reason: "malformed"})
		}
	}
	for _, a := range []string{"", "H", "HTTP/1.1", "HTTP/1.1 200", okHead, okHead + "Content-Le", okHead + "Content-Length: 3\r\n", "HTTP/1.1 100 Continue\r\n\r\n"} {
		all = append(all, nonsense{name: fmt.Sprintf("closed after %d bytes", len(a)), answer: a, closes: true, status: 502, reason: "closed"})
	}
	const rest = "\r\nContent-Length: 2\r\nX-Marker: @\r\n\r\nok"
	for _, line := range []string{
		"HTTP/1.1 000 No", "HTTP/1.1 099 No", "HTTP/1.1 99 No", "HTTP/1.1 600 No", "HTTP/1.1 999 No", "HTTP/1.1 1000 No", "HTTP/1.1 2x0 No", "HTTP/1.1 -20 No", "HTTP/1.1  200 OK", "HTTP/1.1\t200 OK",
		"HTTP/1.1 200OK", "HTTP/1.1 20 OK", "HTTP/1.1  OK", "HTTP/1.1 ", "HTTP/1.2 200 OK", "HTTP/2.0 200 OK", "HTTP/2 200", "HTTP/0.9 200 OK", "HTTP/1.10 200 OK", "http/1.1 200 OK", "HTTP/1,1 200 OK",
		"HTTP/1.1 200 O\x00K", "HTTP/1.1 200 O\x7fK", "HTTP/1.1 200 O\rK", "HTTP/1.1 200 OK\r", " HTTP/1.1 200 OK", "ICY 200 OK", "HTTPS/1.1 200 OK", "SIP/2.0 200 OK", "200 OK",
	} {
		malformed("status line "+strconv.Quote(line), line+rest)
	}
	malformed("no HTTP/1", "<html>@</html>", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", "\x15\x03\x01\x00\x02\x02\x46",
		"\r\n"+okHead+"Content-Length: 0\r\n\r\n", "\n", "\x00", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "220 mail ready\r\n", strings.Repeat("\x00", 70<<10))
	for _, line := range []string{
		"X: a\x00b\r\n", "X: a\x01\r\n", "X: a\x7f\r\n", "X: a\rb\r\n", "X\x00: a\r\n", "X : a\r\n", "X y: a\r\n", "X\r\n", ": a\r\n", " X: a\r\n", "X: a\r\n b\r\n", "X: a\r\n\tb\r\n", "X: a\n", "X\xc3\xa9: a\r\n",
		strings.Repeat("x", 300) + ": a\r\n",
	} {
		malformed("field "+strconv.Quote(line[:min(len(line), 20)]), okHead+line+"Content-Length: 0\r\n\r\n", okHead+"Content-Length: 0\r\n"+line+"\r\n")
	}
	for _, lines := range []string{
		"Content-Length: 2\r\nContent-Length: 2\r\n", "Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: 2, 2\r\n", "Content-Length: -2\r\n", "Content-Length: +2\r\n", "Content-Length: 0x2\r\n", "Content-Length: 2 2\r\n",
		"Content-Length: \r\n", "Content-Length: 18446744073709551618\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: two\r\n", "Content-Length: 2.0\r\n", "Content-Length : 2\r\n",
		"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: \r\n", "Transfer-Encoding: chunked;a=b\r\n", "Transfer-Encoding : chunked\r\n",
	} {
		malformed("framing "+strconv.Quote(lines), okHead+lines+"\r\n2\r\nok\r\n0\r\n\r\n")
	}
	malformed("coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
	malformed("endless", okHead+strings.Repeat("X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 2100), okHead+"X: "+strings.Repeat("a", 70<<10), "HTTP/1.1 200 "+strings.Repeat("a", 70<<10),
		strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: a\r\n\r\n", maxInterim+1)+okHead+rest[2:], strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 3000))
	malformed("protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n@", "HTTP/1.1 101 Switching Protocols\r\n\r\n@")
	for i, a := range []string{"HTTP/1.1 101 Switching Protocols\r\n\r\n@", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n@", "HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n@"} {
		all = append(all, nonsense{name: fmt.Sprintf("protocol, asked for %d", i), more: "Connection: Upgrade\r\nUpgrade: echo\r\n", answer: a, status: 502, reason: "malformed"})
	}
	const chunkedHead = okHead + "Transfer-Encoding: chunked\r\n\r\n"
	for _, body := range []string{
		"5\r\nhelloworld\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "fffffffffffffffff\r\nhello\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n",
		"hello\r\n", "5;\x00\r\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "0\r\nX : a\r\n\r\n", "0\r\nX: a\x00\r\n\r\n", "0\r\n X: a\r\n\r\n", "0\r\n" + strings.Repeat("X: a\r\n", 1000) + "\r\n", "5;" + strings.Repeat("x", 1000) + "\r\n",
		"0\r\nX: a\n\r\n", "5\r\nhello\r\n0\n\r\n",
	} {
		malformed("chunks "+strconv.Quote(body[:min(len(body), 20)]), chunkedHead+body)
	}
	return append(all, passable(chunkedHead)...)
}

// passable are answers of which something can be passed on. The server's connection is not
// used again, nor shown what follows.
func passable(chunkedHead string) []nonsense {
	return []nonsense{
		{name: "good", answer: okHead + "Content-Length: 2\r\n\r\nok", status: 200, body: "ok", kept: true},
		{name: "a line without reason", answer: "HTTP/1.1 200\r\nX-Marker: @\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok", kept: true},
		{name: "no content", answer: "HTTP/1.1 204 No Content\r\nX-Marker: @\r\n\r\n", status: 204, kept: true},
		{name: "not modified, with a length", answer: "HTTP/1.1 304 Not Modified\r\nX-Marker: @\r\nContent-Length: 9\r\n\r\n", status: 304, kept: true},
		{name: "head", method: "HEAD", answer: okHead + "Content-Length: 9\r\n\r\n", status: 200, kept: true},
		{name: "head, chunked", method: "HEAD", answer: okHead + "Transfer-Encoding: chunked\r\n\r\n", status: 200, kept: true},
		{name: "continue unasked", answer: "HTTP/1.1 100 Continue\r\n\r\n" + okHead + "Content-Length: 2\r\n\r\nok", status: 200, body: "ok", kept: true},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nX-Marker: @\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "until close", answer: okHead + "\r\nok", closes: true, status: 200, body: "ok"},
		{name: "says close", answer: okHead + "Connection: close\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok"},
		{name: "names its length", answer: okHead + "Connection: x, content-length\r\nX: y\r\nContent-Length: 2\r\n\r\nok", status: 200, body: "ok", kept: true},
		{name: "names its coding", answer: okHead + "Connection: x, transfer-encoding\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 200, body: "ok", kept: true},

		{name: "two answers", answer: okHead + "Content-Length: 2\r\n\r\nok" + poison, status: 200, body: "ok"},
		{name: "two answers, chunked", answer: chunkedHead + "2\r\nok\r\n0\r\n\r\n" + poison, status: 200, body: "ok"},
		{name: "two answers to head", method: "HEAD", answer: okHead + "Content-Length: 9\r\n\r\n" + poison, status: 200},
		{name: "two answers to post", method: "POST", more: "Content-Length: 0\r\n", answer: okHead + "Content-Length: 2\r\n\r\nok" + poison, status: 200, body: "ok"},
		{name: "garbage behind", answer: okHead + "Content-Length: 2\r\n\r\nok\x00", status: 200, body: "ok"},
		{name: "a line behind", answer: okHead + "Content-Length: 2\r\n\r\nok\r\n", status: 200, body: "ok"},
		{name: "half an answer behind", answer: okHead + "Content-Length: 2\r\n\r\nokHTTP/1.1 2", status: 200, body: "ok"},
		{name: "longer than its length", answer: okHead + "Content-Length: 2\r\n\r\nok, and more", status: 200, body: "ok"},
		{name: "a body on head", method: "HEAD", answer: okHead + "Content-Length: 83\r\n\r\n" + poison, status: 200},
		{name: "chunks on head", method: "HEAD", answer: okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 200},
		{name: "a body on 204", answer: "HTTP/1.1 204 No Content\r\nX-Marker: @\r\nContent-Length: 2\r\n\r\nok", status: 204},
		{name: "a length on 204, and no body", answer: "HTTP/1.1 204 No Content\r\nX-Marker: @\r\nContent-Length: 2\r\n\r\n", status: 204},
		{name: "chunks on 204", answer: "HTTP/1.1 204 No Content\r\nX-Marker: @\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 204},
		{name: "a body on 304", answer: "HTTP/1.1 304 Not Modified\r\nX-Marker: @\r\nContent-Length: 83\r\n\r\n" + poison, status: 304},
		{name: "chunks on 304", answer: "HTTP/1.1 304 Not Modified\r\nX-Marker: @\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 304},
		{name: "a length on 103", answer: "HTTP/1.1 103 Early Hints\r\nContent-Length: 83\r\n\r\n" + poison, status: 502, reason: "malformed"},
		{name: "chunks on 103", answer: "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" + poison, status: 502, reason: "malformed"},
		{name: "103 says close", answer: "HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\n" + okHead + "Content-Length: 2\r\n\r\nok", status: 200, body: "ok"},

		{name: "shorter than its length", answer: okHead + "Content-Length: 20\r\n\r\nok", closes: true, status: 200, cut: true},
		{name: "no last chunk", answer: chunkedHead + "2\r\nok\r\n", closes: true, status: 200, cut: true},
		{name: "half a chunk", answer: chunkedHead + "20\r\nok", closes: true, status: 200, cut: true},
		{name: "half the trailers", answer: chunkedHead + "2\r\nok\r\n0\r\nX: a\r\n", closes: true, status: 200, cut: true},
	}
}

// nonsenseServer says what it is given to what is asked for /say, and answers all
// others with their marker, which is their path, and the number of the connection.
func nonsenseServer(t testing.TB, what *atomic.Pointer[nonsense]) (addr string) {
	return serveRaw(t, func(c net.Conn, n int) {
		for in := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			answer := fmt.Sprintf(okHead+"X-Connection: %d\r\nContent-Length: %d\r\n\r\n%s", n, len(req.URL.Path), req.URL.Path)
			closes := false
			if req.URL.Path == "/say" {
				say := what.Load()
				answer, closes = say.answer, say.closes
			}
			if _, err = io.WriteString(c, strings.ReplaceAll(answer, "@", req.URL.Path)); err != nil || closes {
				return
			}
		}
	})
}

// Whatever a server says, the client that asked gets what can be made of it, or 502, and the next client gets
// its own answer. There is at most one connection to the server.
func TestNonsense(t *testing.T) {
	t.Parallel()
	say := new(atomic.Pointer[nonsense])
	s := start(t, func(o *standOptions) { o.pool.MaxConnections = 1 }, nonsenseServer(t, say))
	first, second := &talker{t: t, addr: s.addr}, &talker{t: t, addr: s.addr}
	for i, n := range nonsenses() {
		say.Store(&n)
		was, before := first.good(fmt.Sprintf("/before%d", i)), s.Stats()
		resp, body, err := first.ask(n.method, "/say", n.more)
		is, after := second.good(fmt.Sprintf("/after%d", i)), s.Stats()
		switch {
		case resp == nil:
			t.Errorf("%s: %v", n.name, err)
			continue
		case resp.StatusCode != n.status || (err != nil) != n.cut:
			t.Errorf("%s: %s, %v", n.name, resp.Status, err)
		case n.reason == "" && resp.Header.Get("X-Marker") != "/say", n.reason == "" && !n.cut && body != n.body:
			t.Errorf("%s: %q %v", n.name, body, resp.Header)
		case n.reason != "" && (resp.Header.Get("X-Marker") != "" || !strings.Contains(body, "The server behind this proxy")):
			t.Errorf("%s: %q %v", n.name, body, resp.Header)
		}
		if (was == is) != n.kept {
			t.Errorf("%s: the server's connections are %s and then %s", n.name, was, is)
		}
		failures := uint64(0)
		for reason := range after.Failures {
			failures += after.Failures[reason] - before.Failures[reason]
		}
		want := map[bool]uint64{true: 1}
		if failures != want[n.reason != ""] || n.reason != "" && after.Failures[n.reason] != before.Failures[n.reason]+1 || after.Broken-before.Broken != want[n.cut] {
			t.Errorf("%s: counted %v, before %v", n.name, after, before)
		}
		if answers := after.Answers["2xx"] + after.Answers["3xx"] - before.Answers["2xx"] - before.Answers["3xx"]; answers != 1+want[n.reason == ""] {
			t.Errorf("%s: %d answers were counted", n.name, answers)
		}
	}
}
