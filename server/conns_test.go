package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// ended notes which deadlines were set.
type ended struct {
	net.Conn
	read, both int
}

func (e *ended) RemoteAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (e *ended) Close() error                      { return nil }
func (e *ended) SetReadDeadline(t time.Time) error { e.read++; return nil }
func (e *ended) SetDeadline(t time.Time) error     { e.both++; return nil }

// Nobody gets less than the limit of a phase, and nobody more than two turns
// beyond it.
func TestPhasesEnd(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, tc := range []struct {
		name       string
		begin      func(*conns, *conn)
		read, both int // the turn, from the beginning of the phase, in which it ends
	}{
		{"reading", func(c *conns, cn *conn) { c.note(cn, fasthttp.StateActive) }, 2 * 4, (2 + 3) * 4},
		{"writing", func(_ *conns, cn *conn) { cn.enter(writing) }, 0, 3 * 4},
		{"idle", func(c *conns, cn *conn) { c.note(cn, fasthttp.StateIdle) }, 9 * 4, (9 + 3) * 4},
	} {
		var c conns
		c.init(limits{head: 2 * second, write: 3 * second, idle: 9 * second, max: 10, perClient: 10}) // a turn is 250 ms
		nc := new(ended)
		cn := c.wrap(nc)
		if !c.admit(cn) {
			t.Fatal("refused")
		}
		cn.unborn = false
		for range 5 {
			c.round()
		}
		tc.begin(&c, cn)
		for turn := 1; turn <= tc.both+1; turn++ {
			read, both := nc.read, nc.both
			c.round()
			elapsed := turn - 1 // whole turns, at least
			if got, want := nc.read > read, tc.read > 0 && elapsed >= tc.read && elapsed < tc.both; got != want {
				t.Errorf("%s, after %d turns: read deadline set: %v, want %v", tc.name, elapsed, got, want)
			}
			if got, want := nc.both > both, elapsed >= tc.both; got != want {
				t.Errorf("%s, after %d turns: both deadlines set: %v, want %v", tc.name, elapsed, got, want)
			}
		}
		c.remove(cn)
		if c.count() != 0 {
			t.Errorf("%s: a closed connection is still watched", tc.name)
		}
	}
}

// A phase that begins between the start of a round and the look at it is not
// taken for one that began long ago.
func TestPhaseOfThisVeryTurn(t *testing.T) {
	t.Parallel()
	var c conns
	c.init(limits{head: time.Second, write: time.Second, idle: time.Second, max: 10, perClient: 10})
	nc := new(ended)
	cn := c.wrap(nc)
	c.admit(cn)
	for range 1000 {
		c.turn.Add(1)
		cn.enter(reading) // of the turn that round is about to begin
		c.turn.Add(^uint32(0))
		c.round()
	}
	if nc.read+nc.both != 0 {
		t.Errorf("ended %d times", nc.read+nc.both)
	}
}

// Under -race: requests begin phases while the watcher goes round.
func TestPhasesAreRaceFree(t *testing.T) {
	t.Parallel()
	var c conns
	c.init(limits{head: time.Hour, write: time.Hour, idle: time.Hour, max: 10, perClient: 10})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				nc := new(ended)
				cn := c.wrap(nc)
				c.admit(cn)
				cn.enter(writing)
				c.note(cn, fasthttp.StateIdle)
				c.remove(cn)
				if nc.read+nc.both != 0 {
					t.Error("ended before its time")
				}
			}
		})
	}
	for range 1000 {
		c.round()
	}
	all.Wait()
}

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
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("want the end of the connection, got %v", err)
	}
	eventually(t, func() bool { return s.conns.count() == 0 })
}

// Who sends requests and reads no answer is cut off.
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
	c.SetWriteDeadline(time.Now().Add(30 * time.Second))
	for {
		if _, err := c.Write(many); err != nil {
			break // reset by the server, or the deadline of this test
		}
	}
	eventually(t, func() bool { return s.conns.count() == 0 })
}
