package server

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"Content-Length: 1": true, "CONTENT-LENGTH:1": true, "content-length : 1": true, "Content-Length\t:": true,
		"Content-Length": false, "Content-Lengths: 1": false, "Content-Len": false, "": false, "XContent-Length: 1": false,
	} {
		if got := named([]byte(line), "content-length"); got != want {
			t.Errorf("%q: got %v", line, got)
		}
	}
}

func TestInspectSeesForwarding(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"X-Forwarded-For: a": true, "x-real-ip: a": true, "Forwarded: for=a": true, "FORWARDED:": true,
		"X-Forwarded-Fort: a": false, "X: X-Forwarded-For: a": false, "Accept: */*": false,
	} {
		var h fasthttp.RequestHeader
		if err := h.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: a\r\n" + header + "\r\n\r\n"))); err != nil {
			t.Fatal(err)
		}
		if got := inspect(&h).forwarded; got != want {
			t.Errorf("%q: got %v", header, got)
		}
	}
}

// FuzzFraming has net/http as the other reader: where fasthttp and inspect let
// a request pass, and net/http reads it too, both must see the same body.
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
		var h fasthttp.RequestHeader
		if h.Read(bufio.NewReader(bytes.NewReader(raw))) != nil || inspect(&h).ambiguous || !http1(&h) {
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
