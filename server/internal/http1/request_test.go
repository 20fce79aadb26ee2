package http1

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	getA  = "GET / HTTP/1.1\r\nHost: a\r\n"
	postA = "POST / HTTP/1.1\r\nHost: a\r\n"
)

// What a request is: its fields in the notation of summary, and how long its head is.
func TestRequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ head, want string }{
		{"GET /a?b=c HTTP/1.1\r\nHost: example.com:80\r\n\r\n", `GET /a?b=c 1 "example.com:80" 0`},
		{"\r\n" + getA + "\r\n", `GET / 1 "a" 0`},
		{"!#$%&'*+-.^_`|~9Az / HTTP/1.1\r\nhOST:\t a \t\r\n\r\n", "!#$%&'*+-.^_`|~9Az / 1 \"a\" 0"},
		{"M / HTTP/1.1\r\nHost: a\r\n\r\n", `M / 1 "a" 0`},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", `OPTIONS * 1 "a" 0`},
		{"GET http://b/c HTTP/1.1\r\nHost: a\r\n\r\n", `GET http://b/c 1 "a" 0`},
		{"GET HTTPS://b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", `GET HTTPS://b 1 "[::1]:80" 0`},
		{"GET http://b:80?c@d HTTP/1.1\r\nHost: a\r\n\r\n", `GET http://b:80?c@d 1 "a" 0`},
		{"GET / HTTP/1.0\r\n\r\n", `GET / 0 "" 0 close`},
		{"GET / HTTP/1.0\r\nHost:\r\n\r\n", `GET / 0 "" 0 close`},
		{"GET / HTTP/1.0\r\nHost: a\r\nConnection: x, Keep-Alive\r\n\r\n", `GET / 0 "a" 0`},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", `GET / 0 "" 0 close`},
		{"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n", `POST / 0 "" 5 close`},
		{getA + "Connection: close\r\n\r\n", `GET / 1 "a" 0 close`},
		{getA + "Connection:close\r\n\r\n", `GET / 1 "a" 0 close`},
		{getA + "Connection:,close\r\n\r\n", `GET / 1 "a" 0 close`},
		{getA + "CONNECTION: x ,\tCLOSE\r\n\r\n", `GET / 1 "a" 0 close`},
		{getA + "Connection: close\r\nConnection: keep-alive\r\n\r\n", `GET / 1 "a" 0 close`},
		{getA + "Connection: closed, xclose, \"close\"\r\n\r\n", `GET / 1 "a" 0`},
		{postA + "Content-Length: 5\r\n\r\n", `POST / 1 "a" 5`},
		{postA + "content-length:\t 005 \r\n\r\n", `POST / 1 "a" 5`},
		{postA + "Content-Length: 999999999999999999\r\n\r\n", `POST / 1 "a" 999999999999999999`},
		{postA + "Content-Length: 0\r\n\r\n", `POST / 1 "a" 0`},
		{postA + "TRANSFER-encoding:\tCHUNKED \r\n\r\n", `POST / 1 "a" -1`},
		{postA + "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\n", `POST / 1 "a" 1 continue`},
		{"POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", `POST / 0 "" 0 close`},
		{getA + "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n", `GET / 1 "a" 0 upgrade`},
		{getA + "Connection: upgrade\r\nupgrade: websocket\r\n\r\n", `GET / 1 "a" 0 upgrade`},
		{getA + "Upgrade: h2c\r\n\r\n", `GET / 1 "a" 0`},
		{getA + "Connection: upgrade\r\n\r\n", `GET / 1 "a" 0`},
		{getA + "Connection: upgrade\r\nUpgrade:\r\n\r\n", `GET / 1 "a" 0`},
		{"GET / HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n", `GET / 0 "" 0`},
		{getA + "x-forwarded-for: 1\r\n\r\n", `GET / 1 "a" 0 forwarded`},
		{getA + "X-Real-IP: 1\r\n\r\n", `GET / 1 "a" 0 forwarded`},
		{getA + "forwarded:\r\n\r\n", `GET / 1 "a" 0 forwarded`},
		{getA + "X-Forwarded-Fort: 1\r\nX-Real-Ix: 1\r\nForwarder: 1\r\n\r\n", `GET / 1 "a" 0`},
		{getA + "X:\r\nY: a\tb\xff\r\nZ: \t \r\n\r\n", `GET / 1 "a" 0`},
		{getA + "X: " + long + "\r\n" + strings.Repeat("n", 255) + ": x\r\n\r\n", `GET / 1 "a" 0`},
		{getA + "Content-Length-X: 3\r\nContent_Length: 3\r\nTransfer-Encodings: x\r\nTE: chunked\r\nExpecu: x\r\nUpgradf: x\r\nHosu: b\r\n\r\n", `GET / 1 "a" 0`},
		{getA + "Content-Length:" + strings.Repeat(" ", 239) + "5\r\n\r\n", `GET / 1 "a" 5`},
	} {
		atEverySplit(t, c.head, func(b []byte) string {
			var r Request
			n, err := r.Parse(b)
			if n > 0 && string(r.Fields) != strings.TrimSuffix(c.head[strings.Index(c.head, "HTTP/1.")+len("HTTP/1.1\r\n"):], "\r\n") {
				t.Errorf("%.200q: fields %q", c.head, r.Fields)
			}
			return summary(&r, n, err)
		}, len(c.head), c.want)
	}
}

// summary says everything about a request but its field lines; "" if it needs more bytes.
func summary(r *Request, n int, err error) string {
	if n == 0 {
		return outcome(err)
	}
	return fmt.Sprintf("%s %s %d %q %d", r.Method, r.Target, r.Minor, r.Host, r.Length) +
		words(map[string]bool{" close": r.Close, " continue": r.Continue, " upgrade": r.Upgrade, " forwarded": r.Forwarded})
}

// words are those that are so, sorted.
func words(are map[string]bool) string {
	maps.DeleteFunc(are, func(_ string, is bool) bool { return !is })
	return strings.Join(slices.Sorted(maps.Keys(are)), "")
}

// outcome of a call that has found nothing.
func outcome(err error) string {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Kind.String() + ": " + e.Error()
	}
	return "not an *Error"
}

// atEverySplit asserts that a parser needs more bytes until it has enough of them, and
// that from then on it finds what is wanted, whatever follows.
func atEverySplit(t *testing.T, stream string, parse func([]byte) string, enough int, want string) {
	t.Helper()
	for n := range len(stream) + 1 {
		b := []byte(stream[:n])
		got := parse(b)
		if n < enough && got != "" || n >= enough && got != want {
			t.Fatalf("%.300q: of %d bytes %q, want %q of %d", stream, n, got, want, enough)
		}
	}
	if got := parse([]byte(stream + "\x00\n\r\n")); got != want {
		t.Fatalf("%.300q: with more behind it %q, want %q", stream, got, want)
	}
}

// Requests that are refused. What is wrong ends at the mark; as soon as that has come
// the request is refused, and not before.
func TestBadRequest(t *testing.T) {
	t.Parallel()
	for kind, heads := range map[Kind][]string{
		Malformed: {
			"\r\n\r\n|" + getA, " / HTTP/1.1\r\n|", "GET  / HTTP/1.1\r\n|", "GET /  HTTP/1.1\r\n|", "GET / x HTTP/1.1\r\n|", " GET / HTTP/1.1\r\n|", "GET / HTTP/1.1 \r\n|",
			"GET\t/ HTTP/1.1\r\n|", "GET /\tHTTP/1.1\r\n|", "GET / HTTP/1.1\r\r\n|", "GET /\r HTTP/1.1\r\n|", "\rGET / HTTP/1.1\r\n|", "GET /\x00 HTTP/1.1\r\n|", "GET /\x7f HTTP/1.1\r\n|",
			"G(T / HTTP/1.1\r\n|", "GET: / HTTP/1.1\r\n|", "G\xc3\x89T / HTTP/1.1\r\n|", "GET HTTP/1.1\r\n|", "GET  HTTP/1.1\r\n|", "GET /\r\n|", "GET / \r\n|", "GET\r\n|", "HTTP/1.1\r\n|", " HTTP/1.1\r\n|",
			"GET / http/1.1\r\n|", "GET / HTTP/1\r\n|", "GET / HTTP/1.10\r\n|", "GET / HTTP/01.1\r\n|", "GET / HTTP/1,1\r\n|", "GET / XTTP/1.1\r\n|", "GET / HTTP/x.1\r\n|", "GET / HTTP/1.x\r\n|",
			"GET /HTTP/1.1\r\n|", "\x16\x03\x01\r\n|", "HTTP/1.1 200 OK\r\n|",
			getA + "X\r\n|", getA + "X y: z\r\n|", getA + "X : a\r\n|", getA + "X\t: a\r\n|", getA + ": a\r\n|", getA + "\"X\": a\r\n|", getA + "X\xe9: a\r\n|", getA + "X\x00: a\r\n|", getA + "\x00: a\r\n|",
			getA + "X: a\x00b\r\n|", getA + "X: \x7f\r\n|", getA + "X: a\rb\r\n|", getA + "X: a\r\r\n|", getA + "\r\r\n|", getA + "X: abcdefgh\x1bijklmnop\r\n|", getA + "X: \t\x0b\r\n|",
			getA + strings.Repeat("n", 256) + ": a\r\n|", getA + "Connection: " + strings.Repeat("x, ", 100) + "close\r\n|", getA + "Connection:" + strings.Repeat(" ", 240) + "close\r\n|",
			postA + "Content-Length:\r\n|", postA + "Content-Length: +3\r\n|", postA + "Content-Length: 3,3\r\n|", postA + "Content-Length: 0x3\r\n|", postA + "Content-Length: 3 3\r\n|",
			postA + "Content-Length: /\r\n|", postA + "Content-Length: 1:\r\n|", postA + "Content-Length: 1000000000000000000\r\n|", postA + "Content-Length: \xd9\xa3\r\n|", postA + "Content-Length: 3\x00\r\n|",
			postA + "Content-Length:" + strings.Repeat(" ", 240) + "5\r\n|",
		},
		Framing: {
			"GET / HTTP/1.1\n|", "\n|" + getA, "\r\n\n|" + getA, "GET /\x00 HTTP/1.1\n|", getA + "\n|", getA + "X: a\n|", getA + "X\n|", getA + "X y: z\n|", getA + "X: a\x00\n|", getA + "X: a\rb\n|",
			getA + " X: a\r\n|", getA + "X: a\r\n\tb\r\n|", getA + " \r\n|", "GET / HTTP/1.1\r\n Host: a\r\n|",
			postA + "Content-Length: 1\r\nContent-Length: 1\r\n|", postA + "Content-Length: 0\r\nContent-Length: 5\r\n|", postA + "Content-Length: 1\r\nX: y\r\nCONTENT-LENGTH:2\r\n|",
			postA + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n|", postA + "Transfer-Encoding: identity\r\n|", postA + "Transfer-Encoding: gzip, chunked\r\n|",
			postA + "Transfer-Encoding:\r\n|", postA + "Transfer-Encoding: chunked,\r\n|", postA + "Transfer-Encoding: \x0bchunked\r\n|", postA + "Transfer-Encoding: \xe2\x84\xaahunked\r\n|",
			postA + "Transfer-Encoding: chun\xe2\x84\xaaed\r\n|", postA + "Transfer-Encoding: chunked" + strings.Repeat(" ", 300) + "\r\n|",
			postA + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n|", postA + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n|",
			"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n|", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n|",
		},
		Version:     {"GET / HTTP/2.0\r\n|", "PRI * HTTP/2.0\r\n|\r\nSM\r\n\r\n", "GET / HTTP/1.2\r\n|", "GET / HTTP/0.9\r\n|", "GET x HTTP/9.9\r\n|"},
		Target:      {"PRI * HTTP/1.1\r\n|", "CONNECT a:443 HTTP/1.1\r\n|", "CONNECT / HTTP/1.1\r\n|", "GET * HTTP/1.1\r\n|", "OPTIONS *x HTTP/1.1\r\n|", "GET a HTTP/1.1\r\n|", "GET ftp://a HTTP/1.1\r\n|", "GET http://u@a/ HTTP/1.1\r\n|", "GET http:///a HTTP/1.1\r\n|", "GET http://?a HTTP/1.1\r\n|", "GET https:// HTTP/1.1\r\n|", "GET http://a\\b HTTP/1.1\r\n|", "GET /\xe9 HTTP/1.1\r\n|", "GET /#a HTTP/1.1\r\n|"},
		Expectation: {postA + "Expect: 200-ok\r\n\r\n|", postA + "Expect:\r\n\r\n|", postA + "Expect: 100-continue\r\nExpect: x\r\n\r\n|", postA + "Expect: 100-continue, x\r\n\r\n|", "GET / HTTP/1.0\r\nExpect: x\r\n\r\n|"},
		Host: {
			"GET / HTTP/1.1\r\n\r\n|", "GET / HTTP/1.1\r\nX: a\r\n\r\n|", "GET / HTTP/1.1\r\nHost:\r\n\r\n|", "GET / HTTP/1.1\r\nHost: \t\r\n\r\n|", getA + "Host: a\r\n\r\n|", getA + "HOST:\r\n\r\n|",
			"GET / HTTP/1.1\r\nHost:\r\nHost: a\r\n\r\n|", "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n|", getA + "Host: a\r\nHost: a\r\n\r\n|", "GET http://b/ HTTP/1.1\r\n\r\n|",
			"GET / HTTP/1.1\r\nHost: a b\r\n\r\n|", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n|", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n|", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n|", "GET / HTTP/1.1\r\nHost: \xe9\r\n\r\n|",
			"GET / HTTP/1.1\r\nHost: a#b\r\n\r\n|", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n|", "GET / HTTP/1.0\r\nHost: \"a\"\r\n\r\n|",
		},
	} {
		for _, marked := range heads {
			wrong, more, _ := strings.Cut(marked, "|")
			parse := func(b []byte) string {
				var r Request
				n, err := r.Parse(b)
				return summary(&r, n, err)
			}
			want := parse([]byte(wrong))
			if !strings.HasPrefix(want, kind.String()+": ") {
				t.Errorf("%.300q: %q, want kind %v", marked, want, kind)
				continue
			}
			atEverySplit(t, wrong+more, parse, len(wrong), want)
		}
	}
}
