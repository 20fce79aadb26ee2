package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// The next request after a silence longer than the limit meets a closed
// connection; one in time does not.
func TestIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.IdleTimeout = 200 * time.Millisecond })
	c := dial(t, s.addr)
	defer c.Close()
	br := bufio.NewReader(c)
	for range 3 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		resp.Body.Close()
	}
	c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("want the end of the connection, got %v", err)
	}
	eventually(t, func() bool { return s.conns.Open() == 0 })
}

// A client that sends requests and reads no answer is cut off.
func TestClientThatDoesNotReadIsCut(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) {
		c.Connections.WriteTimeout, c.Connections.HeaderTimeout = 200*time.Millisecond, time.Hour
	})
	c := dial(t, s.addr)
	defer c.Close()
	many := make([]byte, 0, 1<<20)
	for len(many) < 1<<20-64 {
		many = append(many, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"...)
	}
	c.SetWriteDeadline(time.Now().Add(2 * time.Minute))
	for {
		if _, err := c.Write(many); err != nil {
			break // reset by the server, or the deadline of this test
		}
	}
	eventually(t, func() bool { return s.conns.Open() == 0 })
}

// Nearly full, a denial is the last answer on its connection; before, not.
func TestDeniedAreSentAwayWhenCrowded(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.Max = 10 })
	flood := dialFrom(t, "127.0.0.1", s.addr)
	for range 3 {
		ask(flood)
	}
	if ask(flood) != 429 || ask(flood) != 429 {
		t.Fatal("with room left")
	}
	for i := range 8 {
		if ask(dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i), s.addr)) != 200 {
			t.Fatal("another")
		}
	}
	eventually(t, func() bool { return s.conns.Open() == 9 }) // no more at the door
	if ask(flood) != 429 || !hasEnded(flood) {
		t.Error("nine of ten: the denied connection stays")
	}
	if n := s.conns.Dismissed()["denied"]; n != 1 {
		t.Errorf("counted %d", n)
	}
}

// A client above its bound loses its own connections; one behind a trusted proxy
// does not.
func TestTrustedProxiesMayHoldMoreConnections(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[bool]int{false: 3, true: 20} {
		set := perIP()
		if trusted {
			set.TrustedProxies = loopback()
		}
		set.Rules[0].Limit.Burst = 1000
		s := start(t, set, func(c *Config) { c.Connections.MaxPerClient = 3 })
		for range 20 {
			if ask(dialFrom(t, "127.0.0.1", s.addr)) != 200 {
				t.Fatal("a newcomer is refused")
			}
		}
		eventually(t, func() bool { _, kept := s.conns.Accepted(); return kept == 20 && s.conns.Open() == want })
		if got := s.conns.Dismissed()["client"]; got != uint64(20-want) {
			t.Errorf("trusted %v: counted %d, want %d", trusted, got, 20-want)
		}
	}
}
