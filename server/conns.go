package server

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// phase is what a connection is about.
type phase uint32

const (
	reading phase = iota // of a request, from its first byte on
	writing              // deciding, and handing over the response
	idle                 // waiting for the next request
	phases
)

// conn is a connection with what every request asks of it, on one cache line
// and, of the gate, the next two.
type conn struct {
	net.Conn
	addr  netip.Addr    // of the client
	since atomic.Uint64 // phase<<32 | turn in which it began
	conns *conns

	framing // of the goroutine that serves it
}

// enter begins a phase.
func (c *conn) enter(p phase) {
	c.since.Store(uint64(p)<<32 | uint64(c.conns.turn.Load()))
}

// conns are the open connections of a listener. It ends those that take too
// long, and all when a drain does. Safe for concurrent use.
//
// fasthttp would set three deadlines for every request, each with a reading of
// the clock: 5 % of the CPU time of a request. Here a request notes the turn
// in which it began a phase, and a goroutine goes round.
type conns struct {
	turn   atomic.Uint32 // of the round; requests read it
	limits [phases]time.Duration
	period time.Duration // of a turn

	mu   sync.Mutex
	open map[*conn]struct{} // guarded by mu
}

// init sets how long a connection may be in a phase. It ends at most two
// periods later: an eighth of the shortest limit each, a second at most.
func (c *conns) init(read, write, wait time.Duration) {
	c.limits = [phases]time.Duration{reading: read, writing: write, idle: wait}
	c.period = max(min(read, write, wait, 8*time.Second)/8, time.Millisecond)
	c.open = make(map[*conn]struct{})
}

func (c *conns) wrap(nc net.Conn) net.Conn {
	return &conn{Conn: nc, addr: tcpAddr(nc.RemoteAddr()), conns: c}
}

// note is called by fasthttp at every change of state, twice per request, and
// must be cheap for those.
func (c *conns) note(nc net.Conn, state fasthttp.ConnState) {
	cn, ok := nc.(*conn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		cn.enter(reading)
	case fasthttp.StateIdle:
		cn.enter(idle)
	case fasthttp.StateNew:
		cn.enter(reading)
		c.mu.Lock()
		c.open[cn] = struct{}{}
		c.mu.Unlock()
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		c.mu.Lock()
		delete(c.open, cn)
		c.mu.Unlock()
	}
}

// watch goes round until ctx ends.
func (c *conns) watch(ctx context.Context) {
	ticker := time.NewTicker(c.period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.round()
		}
	}
}

var longAgo = time.Unix(1, 0)

// round begins a turn and ends what is overdue: by a deadline that is over, so
// that a slow client is still told (408). Whoever does not even take that is
// cut off after the write limit.
func (c *conns) round() {
	turn := c.turn.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for cn := range c.open {
		since := cn.since.Load()
		p := phase(since >> 32)
		// The turn in which it began counts for nothing, so that nobody gets
		// less than the limit; it may also have begun just now.
		age := time.Duration(max(0, int32(turn-uint32(since))-1)) * c.period
		switch limit := c.limits[p]; {
		case age < limit:
		case p != writing && age < limit+c.limits[writing]:
			_ = cn.SetReadDeadline(longAgo)
		default:
			_ = cn.SetDeadline(longAgo)
		}
	}
}

func (c *conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// cut closes all and returns how many they were.
func (c *conns) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cn := range c.open {
		cn.Close()
	}
	return len(c.open)
}
