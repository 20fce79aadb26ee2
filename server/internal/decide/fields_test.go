package decide

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/textproto"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// A policy's question about a request has the same answer whatever has read its head, for every name that a
// rule may have: otherwise a client would have two keys, and two limits, by sending the same field with a
// simple request and with another.
func TestFieldsOfBothWays(t *testing.T) {
	t.Parallel()
	names := []string{
		"X-Api-Key", "X-API-KEY", "x_api_key", "X.Api-1a", "!#$%&'*+-.^_`|~", "a", "-", "--a", "A-", "X-Forwarded-For", "Forwarded", "X-Original-Uri",
		"Host", "User-Agent", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding", "Trailer", "Cookie",
		"Expect", "Upgrade", "Accept-Encoding", "Content-Encoding", "Set-Cookie", "Date", "Server", "Range", "Referer", "Keep-Alive", "Proxy-Connection", "Te", "Authorization",
	}
	values := []string{"", " ", "\t", "k", " k", "k \t", "\tk\tl ", "\xff\x80", "close", "keep-alive, x", "a, b", ",", ":", "a: b", `"k"`, "sid=1", "sid=1; sid=2;", " ;sid = \"a b\" ; x", "sid=\xe9", "SID=1", "sid", "=", "K\u212a"}
	notSimple := map[string]bool{"Expect": true, "Upgrade": true, "Trailer": true, "Content-Length": true, "Transfer-Encoding": true}
	keepsOne := map[string]bool{"User-Agent": true, "Content-Type": true, "Host": true, "Connection": true, "Cookie": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true}
	r := rand.New(rand.NewPCG(3, 4)) // the same each time
	for range 5_000 {
		fields := "Host: a\r\n"
		for range r.IntN(6) {
			name := names[r.IntN(len(names))]
			if notSimple[name] || name == "Host" {
				continue
			}
			switch r.IntN(4) {
			case 0:
				name = strings.ToLower(name)
			case 1:
				name = strings.ToUpper(name)
			}
			fields += name + ":" + values[r.IntN(len(values))] + "\r\n"
		}
		var h fasthttp.RequestHeader
		if err := h.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n" + fields + "\r\n"))); err != nil {
			t.Fatalf("%q: %v", fields, err)
		}
		parsed, simple := &requestState{raw: h.RawHeaders()}, &requestState{raw: []byte(fields)}
		for _, name := range names {
			name = textproto.CanonicalMIMEHeaderKey(name) // as the policy asks
			got, want := fmt.Sprintf("%q", simple.Header(name)), fmt.Sprintf("%q", parsed.Header(name))
			if !keepsOne[name] && got == want {
				want = fmt.Sprintf("%q", h.PeekAll(name))
			}
			if got != want {
				t.Fatalf("%s of %q: %s, fasthttp has %s", name, fields, got, want)
			}
		}
		if got, want := fmt.Sprintf("%q", simple.Cookie("sid")), fmt.Sprintf("%q", parsed.Cookie("sid")); got != want {
			t.Fatalf("cookie of %q: %s and %s", fields, got, want)
		}
	}
}
