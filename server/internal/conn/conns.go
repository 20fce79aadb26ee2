package conn

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/latency"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/valyala/fasthttp"
)

// Conns are the open connections of all traffic listeners. It bounds their number, ends those that are too
// slow, and ends all when the server drains. Safe for concurrent use. The zero value is not usable: call
// [New].
//
// fasthttp would set three deadlines per request and read the clock for each. Here a request only records the
// tick in which a phase began, and one goroutine sweeps all connections.
type Conns struct {
	// Read by requests.
	tick    atomic.Uint32 // counts sweeps
	crowded atomic.Bool   // nearly full: denied clients are disconnected
	drains  atomic.Bool   // each answer is its connection's last
	poller  poller        // watches clients of waiting requests, and parked connections

	limits  Limits                // Max, PerClient and Streams are guarded by mu; the others do not change
	large   int                   // most connections with the larger reader
	timeout [phases]time.Duration // guarded by mu
	period  time.Duration         // between sweeps; guarded by mu
	resized chan struct{}         // period has changed

	noTunnels atomic.Bool // upgraded connections have to end

	parks   parks
	mu      sync.Mutex
	all     group
	longs   group // with the larger reader
	gone    group // dismissed to make room, not closed yet
	peers   map[netip.Addr]*group
	quiet   []*Conn // scratch of lookAtQuiet
	streams streamCount

	rejected, dismissed [reasonCount]atomic.Uint64
	proxyErrors         [proxyReasons]atomic.Uint64
	tlsErrors           [tlsClasses]atomic.Uint64
	acceptErrors        atomic.Uint64
	resets              atomic.Uint64
	atDoor, kept        atomic.Uint64     // connections answered at the door, and all others
	waited              latency.Histogram // time that requests waited for a slot
	waitErrors          sync.Once         // logs once that requests cannot wait
	report              report
}

// reason says why a connection was refused or ended early. The set is closed: it is a label.
type reason uint8

const (
	reasonFull   reason = iota // too many connections in all
	reasonClient               // too many of one client
	reasonLarge                // too many long heads
	reasonDenied               // closed after a denial because connections are nearly full
	reasonCount
)

var reasonNames = [reasonCount]string{"full", "client", "large_head", "denied"}

// Conns are crowded from 90 % of the maximum until they fall below 80 %, so that
// a load near the threshold is reported once.
func crowdedAt(limit int) int { return limit - limit/10 }
func relaxedAt(limit int) int { return limit - limit/5 }

// maxGone is how many dismissed connections may still be open before accepting
// pauses.
const maxGone = 1024

// New returns an empty set of connections with the given bounds. A timeout is
// enforced at most two periods late; a period is an eighth of the shortest timeout,
// and at most a second.
func New(l Limits, log *slog.Logger) *Conns {
	return &Conns{
		limits:  l,
		large:   max(1, LargeHeadBytes/max(1, l.HeadBytes)),
		timeout: l.timeouts(),
		period:  l.period(),
		resized: make(chan struct{}, 1),
		all:     group{kind: groupAll}, longs: group{kind: groupLarge}, gone: group{kind: groupGone},
		peers:  make(map[netip.Addr]*group),
		report: report{log: log},
	}
}

func (c *Conns) wrap(nc net.Conn) *Conn {
	cn := &Conn{Conn: nc, addr: clientOf(nc), conns: c, in: input{unborn: true}}
	cn.entry.clear()
	cn.enter(fresh)
	return cn
}

// client is the address that PerClient bounds. It is invalid for exempt addresses.
func (c *Conns) client(addr netip.Addr) netip.Addr {
	if c.limits.Exempt != nil && addr.IsValid() && c.limits.Exempt(addr) {
		return netip.Addr{}
	}
	return logs.Subscriber(addr)
}

// admit adds a new connection. If there are too many it dismisses another one to make room, and refuses only
// if all others are in the middle of a request that is making progress.
//
// If one client has too many, its own longest idle connection goes. Refusing the new one would let whoever
// came first lock out everybody else at the same address; dismissing costs an idle client one reconnect.
func (c *Conns) admit(cn *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.client(cn.addr)
	if cn.opening != nil && cn.opening.header {
		client = netip.Addr{} // until it is known; see identify
	}
	if !c.roomForLocked(client) {
		return false
	}
	if len(c.all.members) >= c.limits.Max && !c.evictLocked(&c.all, reasonFull) {
		c.rejected[reasonFull].Add(1)
		return false
	}
	c.kept.Add(1)
	c.all.add(cn)
	c.countLocked(cn, client)
	if c.drains.Load() {
		cn.orders.leave.Store(true)
		cn.entry.noted = neverNoted
	}
	c.gaugeLocked()
	return true
}

// identify counts a connection for the client that a PROXY header named. It reports false if it has to end.
func (c *Conns) identify(cn *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.client(cn.addr)
	if !cn.entry.in(groupAll) || !c.roomForLocked(client) {
		return false
	}
	c.countLocked(cn, client)
	return true
}

// roomForLocked makes room for another connection of a client, if it may have one.
func (c *Conns) roomForLocked(client netip.Addr) bool {
	if peer := c.peers[client]; peer != nil && len(peer.members) >= c.limits.PerClient && !c.evictLocked(peer, reasonClient) {
		c.rejected[reasonClient].Add(1)
		return false
	}
	return true
}

func (c *Conns) countLocked(cn *Conn, client netip.Addr) {
	if !client.IsValid() {
		return
	}
	cn.entry.client, cn.entry.peer = client, c.peers[client]
	if cn.entry.peer == nil {
		cn.entry.peer = &group{kind: groupPeer}
		c.peers[client] = cn.entry.peer
	}
	cn.entry.peer.add(cn)
}

// admitLarge counts a connection that uses the larger reader.
func (c *Conns) admitLarge(cn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.longs.members) >= c.large {
		c.evictLocked(&c.longs, reasonLarge)
	}
	if cn.entry.in(groupAll) || cn.entry.in(groupStream) { // else it was dismissed meanwhile and is in gone
		c.longs.add(cn)
	}
}

func (c *Conns) leaveLarge(cn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longs.remove(cn)
}

// evictLocked dismisses one connection of a group, and reports whether one could go.
func (c *Conns) evictLocked(g *group, why reason) bool {
	cn, p := g.victim(c.tick.Load())
	if cn == nil {
		return false
	}
	c.removeLocked(cn)
	if cn.parent == nil {
		c.gone.add(cn)
	}
	c.dismissed[why].Add(1)
	cn.orders.evicted.Store(true)
	if p.waiting() {
		cn.dismiss()
	} else {
		cn.orders.leave.Store(true)
		cn.interrupt(p)
	}
	return true
}

// remove forgets a connection that has ended.
func (c *Conns) remove(cn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(cn)
	c.gone.remove(cn)
	c.gaugeLocked()
}

func (c *Conns) removeLocked(cn *Conn) {
	c.all.remove(cn)
	c.longs.remove(cn)
	if cn.entry.peer != nil && cn.entry.peer.remove(cn) {
		c.forgetPeerLocked(cn)
	}
}

func (c *Conns) gaugeLocked() {
	n := len(c.all.members)
	switch crowded := c.crowded.Load(); {
	case !crowded && n >= crowdedAt(c.limits.Max):
		c.crowded.Store(true)
	case crowded && n < relaxedAt(c.limits.Max):
		c.crowded.Store(false)
	}
}

// waitForDismissed waits briefly while so many dismissed connections are still open that accepting must
// pause.
func (c *Conns) waitForDismissed() {
	for range 100 {
		if !c.busy() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// busy reports whether there are that many.
func (c *Conns) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.gone.members) >= maxGone
}

// onState is called by fasthttp at every change of state, twice per request, and must be cheap.
func (c *Conns) onState(nc net.Conn, state fasthttp.ConnState) {
	cn, ok := nc.(*Conn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		// Not before anything has been read, and not again for a long head, or a client would get its time
		// twice.
		if !cn.in.unborn && !cn.large.active {
			cn.enter(reading)
		}
	case fasthttp.StateIdle:
		cn.endAnswer()
		cn.large.answered = cn.large.active
	}
}

// Open is the number of open connections, dismissed ones included.
func (c *Conns) Open() int { return c.open(nil) }

func (c *Conns) open(l *Listener) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openLocked(l)
}
