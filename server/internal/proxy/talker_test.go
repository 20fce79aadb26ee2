package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/rawhttp"
)

// talker is a client on a connection that it keeps.
type talker struct {
	t    testing.TB
	addr string
	c    net.Conn
	in   *bufio.Reader
}

// dial returns the connection.
func (k *talker) dial() net.Conn {
	if k.c == nil {
		k.c = rawhttp.DialFrom(k.t, "127.0.0.1", k.addr)
		k.in = bufio.NewReader(k.c)
	}
	return k.c
}

// ask sends a request and returns the last answer to it, with what has come of its body.
func (k *talker) ask(method, path, more string) (resp *http.Response, body string, err error) {
	if method == "" {
		method = http.MethodGet
	}
	_, err = fmt.Fprintf(k.dial(), "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n", method, path, more)
	must(k.t, err)
	resp, err = http.ReadResponse(k.in, &http.Request{Method: method})
	for err == nil && resp.StatusCode < 200 {
		resp, err = http.ReadResponse(k.in, &http.Request{Method: method})
	}
	if err == nil {
		var b []byte
		b, err = io.ReadAll(resp.Body)
		body = string(b)
	}
	if err != nil || resp.Close {
		k.c.Close()
		k.c = nil
	}
	return resp, body, err
}

// good asks for what gets a good answer, and returns the number of the server's connection.
func (k *talker) good(path string) (connection string) {
	k.t.Helper()
	resp, body, err := k.ask("GET", path, "")
	if err != nil || resp.StatusCode != 200 || body != path || resp.Header.Get("X-Marker") != path {
		k.t.Fatalf("%s: %v %q %v", path, resp, body, err)
	}
	return resp.Header.Get("X-Connection")
}

// discard ends a connection whose client has sent more than it has asked for.
func (k *talker) discard() {
	if k.c != nil {
		k.c.Close()
		k.c = nil
	}
}

// busy asks for what gets 503, since all connections are in use.
func (k *talker) busy(method string) {
	k.t.Helper()
	resp, body, err := k.ask(method, "/busy", map[bool]string{true: "Content-Length: 0\r\n"}[method == "POST"])
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, "busy") || resp.Close {
		k.t.Errorf("%v %q %v", resp, body, err)
	}
}
