package conn

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestGateSeesForwarding(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"X-Forwarded-For: a": true, "x-real-ip: a": true, "Forwarded: for=a": true, "FORWARDED:": true,
		"X-Forwarded-Fort: a": false, "X: X-Forwarded-For: a": false, "Accept: */*": false, "X-Real-Ix: a": false, "Forwardec: a": false,
	} {
		for how := range 3 {
			var g gate
			for _, p := range cut("GET / HTTP/1.1\r\nHost: a\r\n"+header+"\r\n\r\n", how) {
				g.pass(p)
			}
			if g.forwarded != want {
				t.Errorf("%q, cut %d: got %v", header, how, g.forwarded)
			}
		}
	}
}

// FuzzFraming has net/http as another reader: where the gate and fasthttp let a
// request pass, and net/http reads it too, all must see the same body.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: identity\r\nContent-Length: 5",
		"content-length:5", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding: chunked", "X: a\r\n\tb",
		"Content-Length: 5\r\nContent-Length: 5", "Content-Length: 005", "Transfer-Encoding: \x0bchunked", "Transfer-Encoding : chunked",
		"Transfer-Encoding: chunked\nContent-Length: 5", "Connection: close, Content-Length\r\nContent-Length: 3", "Content-Length:\r\nTransfer-Encoding: chunked",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, headers []byte) {
		raw := append([]byte("POST / HTTP/1.1\r\nHost: a\r\n"), headers...)
		raw = append(raw, "\r\n\r\n"...)
		var g gate
		var h fasthttp.RequestHeader
		g.pass(bytes.Clone(raw))
		if g.problem != nil || h.Read(bufio.NewReader(bytes.NewReader(raw))) != nil || !strings.HasPrefix(string(h.Protocol()), "HTTP/1.") {
			return
		}
		other, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		got := int64(max(h.ContentLength(), -1))
		if h.ContentLength() == -2 { // none
			got = 0
		}
		if got != other.ContentLength {
			t.Fatalf("%q: fasthttp reads a body of %d, net/http of %d", raw, got, other.ContentLength)
		}
	})
}
