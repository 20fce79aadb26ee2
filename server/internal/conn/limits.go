package conn

import (
	"cmp"
	"net/netip"
	"time"
)

// Limits are the bounds on connections.
type Limits struct {
	Head, Write, Idle time.Duration
	Tunnel            time.Duration // without a byte either way; 0: Idle
	Max, PerClient    int
	Streams           int // requests in progress of one client on connections that carry many

	// HeadBytes bounds request line and headers.
	HeadBytes int

	// Exempt reports the addresses that PerClient and Streams do not bound. nil: none.
	Exempt func(netip.Addr) bool

	// Held reports the peers whose packets the kernel drops: their connections that were in a listener's
	// queue are reset. nil: none.
	Held func(netip.Addr) bool
}

// forever is never reached, and leaves room for sums.
const forever = 1 << 62

func (l *Limits) timeouts() [phases]time.Duration {
	return [phases]time.Duration{
		fresh: l.Head, reading: l.Head, body: l.Head, writing: l.Write,
		idle: l.Idle, idleDenied: l.Idle, lingering: lingerTime, opens: l.Head,
		queued:    forever, // its rule bounds it
		asking:    forever, // the upstream's timeouts bound it
		streaming: forever, // its streams are bounded
		sending:   l.Write, tunneling: cmp.Or(l.Tunnel, l.Idle),
	}
}

func (l *Limits) period() time.Duration {
	return max(min(l.Head, l.Write, l.Idle, 8*time.Second)/8, time.Millisecond)
}

// SetLimits puts other limits in force, except HeadBytes, Exempt and Held, which do not change. Connections
// above them stay until one more comes.
func (c *Conns) SetLimits(l Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.Max, c.limits.PerClient, c.limits.Streams = l.Max, l.PerClient, l.Streams
	c.timeout = l.timeouts()
	// Ages are counted in periods: a longer one would make all connections older than they are.
	c.period = min(c.period, l.period())
	select {
	case c.resized <- struct{}{}:
	default:
	}
	c.gaugeLocked()
}

// Max returns the bound on all connections.
func (c *Conns) Max() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limits.Max
}
