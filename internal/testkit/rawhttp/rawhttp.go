// Package rawhttp speaks HTTP/1 over bare connections, for tests of servers: what a
// client library would mend or hide stands on the wire as it is written.
package rawhttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// deadline is when a connection of a test ends that hangs.
const deadline = 2 * time.Minute

// DialFrom connects from an address of this machine, until the test ends.
func DialFrom(t testing.TB, source, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(deadline)) // of an open socket
	return c
}

// Ask sends a request for "/" on an open connection; see [AskFor].
func Ask(c net.Conn) int { return AskFor(c, "/") }

// AskFor sends a request on an open connection and returns the status, 0 if
// there is no answer.
func AskFor(c net.Conn, path string) int {
	return AskText(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
}

// AskText is the same for a request as text.
func AskText(c net.Conn, request string) int {
	if _, err := io.WriteString(c, request); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the status is all that counts
	resp.Body.Close()
	return resp.StatusCode
}

// HasEnded reports whether the server has closed a connection, waiting for it.
func HasEnded(c net.Conn) bool {
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// HeadOf is a request whose head has the given length; more are fields in it.
func HeadOf(length int, more string) string {
	const head = "GET /p HTTP/1.1\r\nHost: a\r\n%sX: %s\r\n\r\n"
	return fmt.Sprintf(head, more, strings.Repeat("x", length-len(fmt.Sprintf(head, more, ""))))
}

// Cut cuts a stream into what a server reads at once: whole for 0, byte by byte
// for 1, else at random, in a different way for each number.
func Cut(stream string, how int) [][]byte {
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

// Eventually waits for a state that must come; timing decides nothing else.
func Eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("did not happen within 10 s")
}
