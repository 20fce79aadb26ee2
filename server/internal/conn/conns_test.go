package conn

import (
	"net"
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
		begin      func(*Conns, *Conn)
		read, both int // the turn, from the beginning of the phase, in which it ends
	}{
		{"reading", func(c *Conns, cn *Conn) { c.onState(cn, fasthttp.StateActive) }, 2 * 4, (2 + 3) * 4},
		{"writing", func(_ *Conns, cn *Conn) { cn.enter(writing) }, 0, 3 * 4},
		{"idle", func(c *Conns, cn *Conn) { c.onState(cn, fasthttp.StateIdle) }, 9 * 4, (9 + 3) * 4},
	} {
		c := New(Limits{Head: 2 * second, Write: 3 * second, Idle: 9 * second, Max: 10, PerClient: 10}, discard) // a turn is 250 ms
		nc := new(ended)
		cn := c.wrap(nc)
		if !c.admit(cn) {
			t.Fatal("refused")
		}
		cn.in.unborn = false
		for range 5 {
			c.sweep()
		}
		tc.begin(c, cn)
		for turn := 1; turn <= tc.both+1; turn++ {
			read, both := nc.read, nc.both
			c.sweep()
			elapsed := turn - 1 // whole turns, at least
			if got, want := nc.read > read, tc.read > 0 && elapsed >= tc.read && elapsed < tc.both; got != want {
				t.Errorf("%s, after %d turns: read deadline set: %v, want %v", tc.name, elapsed, got, want)
			}
			if got, want := nc.both > both, elapsed >= tc.both; got != want {
				t.Errorf("%s, after %d turns: both deadlines set: %v, want %v", tc.name, elapsed, got, want)
			}
		}
		c.remove(cn)
		if c.Open() != 0 {
			t.Errorf("%s: a closed connection is still watched", tc.name)
		}
	}
}

// A phase that begins between the start of a round and the look at it is not
// taken for one that began long ago.
func TestPhaseOfThisVeryTick(t *testing.T) {
	t.Parallel()
	c := New(Limits{Head: time.Second, Write: time.Second, Idle: time.Second, Max: 10, PerClient: 10}, discard)
	nc := new(ended)
	cn := c.wrap(nc)
	c.admit(cn)
	for range 1000 {
		c.tick.Add(1)
		cn.enter(reading) // of the turn that round is about to begin
		c.tick.Add(^uint32(0))
		c.sweep()
	}
	if nc.read+nc.both != 0 {
		t.Errorf("ended %d times", nc.read+nc.both)
	}
}

// Under -race: requests begin phases while the watcher goes round.
func TestPhasesAreRaceFree(t *testing.T) {
	t.Parallel()
	c := New(Limits{Head: time.Hour, Write: time.Hour, Idle: time.Hour, Max: 10, PerClient: 10}, discard)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				nc := new(ended)
				cn := c.wrap(nc)
				c.admit(cn)
				cn.enter(writing)
				c.onState(cn, fasthttp.StateIdle)
				c.remove(cn)
				if nc.read+nc.both != 0 {
					t.Error("ended before its time")
				}
			}
		})
	}
	for range 1000 {
		c.sweep()
	}
	all.Wait()
}
