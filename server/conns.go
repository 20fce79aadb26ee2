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

// limits are the bounds on connections.
type limits struct {
	head, write, idle time.Duration
	max, perClient    int
	large             int // heads that the larger reader has at once

	// exempt tells addresses that perClient does not bound.
	exempt func(netip.Addr) bool
}

// conns are the open connections of all traffic listeners. It bounds their
// number, ends those that take too long, and all when a drain does. Safe for
// concurrent use.
//
// fasthttp would set three deadlines for every request, each with a reading of
// the clock: 5 % of the CPU time of a request. Here a request notes the turn
// in which it began a phase, and a goroutine goes round.
type conns struct {
	// What requests read.
	turn    atomic.Uint32 // of the round
	crowded atomic.Bool   // nearly full: denied clients are sent away

	limits
	timeout [phases]time.Duration
	period  time.Duration // of a turn

	mu       sync.Mutex
	all      group
	large    group
	gone     group
	peers    map[netip.Addr]*group
	draining bool

	rejected, dismissed [reasonCount]atomic.Uint64
}

// reason says why a connection was refused or ended before its time. The set is
// closed: it is a label.
type reason uint8

const (
	reasonFull   reason = iota // all connections
	reasonClient               // those of one client
	reasonLarge                // long heads
	reasonDenied               // closed after a denial, being nearly full
	reasonCount
)

var reasonNames = [reasonCount]string{"full", "client", "large_head", "denied"}

// It is crowded from nine tenths of max on, and not any more below eight, so that a
// load at the edge is told once.
func crowdedAt(limit int) int { return limit - limit/10 }
func relaxedAt(limit int) int { return limit - limit/5 }

// maxGone is how many of the dismissed may still be open before no more
// connections are accepted, for a moment.
const maxGone = 1024

// init sets the bounds. A phase ends at most two periods later: an eighth of the
// shortest limit each, a second at most.
func (c *conns) init(l limits) {
	c.limits = l
	c.timeout = [phases]time.Duration{
		fresh: l.head, reading: l.head, body: l.head, writing: l.write,
		idle: l.idle, idleDenied: l.idle, lingering: lingerTime,
	}
	c.period = max(min(l.head, l.write, l.idle, 8*time.Second)/8, time.Millisecond)
	c.all, c.large, c.gone = group{kind: groupAll}, group{kind: groupLarge}, group{kind: groupGone}
	c.peers = make(map[netip.Addr]*group)
}

func (c *conns) wrap(nc net.Conn) *conn {
	cn := &conn{Conn: nc, addr: tcpAddr(nc.RemoteAddr()), conns: c, unborn: true}
	for i := range cn.places {
		cn.places[i] = -1
	}
	cn.enter(fresh)
	return cn
}

// client is the address that counts against max_per_client: an IPv4 address or
// an IPv6 /64, which one subscriber has. It is invalid for those who are exempt.
func (c *conns) client(addr netip.Addr) netip.Addr {
	if !addr.IsValid() || c.exempt != nil && c.exempt(addr) {
		return netip.Addr{}
	}
	if addr.Is4() {
		return addr
	}
	p, _ := addr.Prefix(64) // of an IPv6 address, which has as many bits
	return p.Addr()
}

// admit takes a new connection in, and dismisses another one for it where there
// are too many. It refuses it only if all others are in the middle of a request
// that has not come to a standstill.
//
// Where one client has too many, its own longest idle one goes. To refuse the
// newcomer would let whoever came first lock out all others behind the same
// address; to dismiss costs an idle client a new connection.
func (c *conns) admit(cn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.client(cn.addr)
	if peer := c.peers[client]; peer != nil && len(peer.members) >= c.perClient && !c.evictLocked(peer, reasonClient) {
		c.rejected[reasonClient].Add(1)
		return false
	}
	if len(c.all.members) >= c.max && !c.evictLocked(&c.all, reasonFull) {
		c.rejected[reasonFull].Add(1)
		return false
	}
	c.all.add(cn)
	if client.IsValid() {
		cn.client, cn.peer = client, c.peers[client]
		if cn.peer == nil {
			cn.peer = &group{kind: groupPeer}
			c.peers[client] = cn.peer
		}
		cn.peer.add(cn)
	}
	if c.draining {
		cn.leave.Store(true)
		cn.noted = neverNoted
	}
	c.gaugeLocked()
	return true
}

// admitLarge lends the larger reader to a connection.
func (c *conns) admitLarge(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.large.members) >= c.limits.large {
		c.evictLocked(&c.large, reasonLarge)
	}
	if cn.places[groupAll] >= 0 { // else it was dismissed, and is watched with those
		c.large.add(cn)
	}
}

func (c *conns) leaveLarge(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.large.remove(cn)
}

// evictLocked makes room in a group.
func (c *conns) evictLocked(g *group, why reason) bool {
	cn, p := g.victim(c.turn.Load())
	if cn == nil {
		return false
	}
	c.removeLocked(cn)
	c.gone.add(cn)
	c.dismissed[why].Add(1)
	cn.evicted.Store(true)
	if p.waiting() {
		cn.dismiss()
	} else {
		cn.leave.Store(true)
		cn.interrupt(p)
	}
	return true
}

// remove forgets a connection that has ended.
func (c *conns) remove(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(cn)
	c.gone.remove(cn)
	c.gaugeLocked()
}

func (c *conns) removeLocked(cn *conn) {
	c.all.remove(cn)
	c.large.remove(cn)
	if cn.peer != nil && cn.peer.remove(cn) && len(cn.peer.members) == 0 {
		delete(c.peers, cn.client)
	}
}

func (c *conns) gaugeLocked() {
	n := len(c.all.members)
	switch crowded := c.crowded.Load(); {
	case !crowded && n >= crowdedAt(c.max):
		c.crowded.Store(true)
	case crowded && n < relaxedAt(c.max):
		c.crowded.Store(false)
	}
}

// busy reports whether the dismissed are so many that accepting has to wait for
// them.
func (c *conns) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.gone.members) >= maxGone
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
		if !cn.unborn { // else fasthttp says so before it has read anything
			cn.enter(reading)
		}
	case fasthttp.StateIdle:
		p := idle
		if cn.denied {
			cn.denied, p = false, idleDenied
		}
		cn.enter(p)
		cn.large.answered = cn.large.active
	}
}

// denied notes that the answer is a denial. Where connections run short it is the
// last one: whoever floods may come again.
func (c *conns) denied(ctx *fasthttp.RequestCtx, cn *conn) {
	cn.denied = true
	if c.crowded.Load() && !cn.leave.Load() {
		c.dismissed[reasonDenied].Add(1)
		ctx.SetConnectionClose()
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
	for _, cn := range c.all.members {
		c.checkLocked(cn, turn)
	}
	for _, cn := range c.gone.members {
		c.checkLocked(cn, turn)
	}
}

func (c *conns) checkLocked(cn *conn, turn uint32) {
	since := cn.since.Load()
	p := phase(since >> 32)
	// The turn in which it began counts for nothing, so that nobody gets
	// less than the limit; it may also have begun just now.
	age := time.Duration(max(0, int32(turn-uint32(since))-1)) * c.period
	switch limit := c.timeout[p]; {
	case age < limit:
	case p == writing || age >= limit+c.timeout[writing]:
		_ = cn.SetDeadline(longAgo)
	case p == idle || p == idleDenied:
		cn.dismiss()
	default:
		cn.interrupt(p)
	}
}

func (c *conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all.members) + len(c.gone.members)
}

// neverNoted is no time at which a phase begins.
const neverNoted = 1<<64 - 1

// lastAnswers makes the next answer of every connection its last.
func (c *conns) lastAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	for _, cn := range c.all.members {
		cn.leave.Store(true)
		cn.noted = neverNoted
	}
}

// dismissQuiet dismisses, in a drain, the connections that no request has used
// since it was called before, or all that wait for one. It returns how many
// connections are open.
//
// One whose phase and turn are those of the time before has not been used in
// between: an answer would have ended it.
func (c *conns) dismissQuiet(all bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		since := cn.since.Load()
		if phase(since>>32).waiting() && (all || cn.noted == since) {
			cn.dismiss()
		}
		cn.noted = since
	}
	return len(c.all.members) + len(c.gone.members)
}

// emptyWithin waits for all connections to end, and reports whether they did.
func (c *conns) emptyWithin(most time.Duration) bool {
	for end := time.Now().Add(most); c.count() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// cut closes all and returns how many they were.
func (c *conns) cut() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.all.members {
		cn.Conn.Close()
	}
	for _, cn := range c.gone.members {
		cn.Conn.Close()
	}
	return len(c.all.members) + len(c.gone.members)
}
