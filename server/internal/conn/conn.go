package conn

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// phase is what a connection is doing.
type phase uint32

const (
	fresh      phase = iota // accepted; nothing has arrived
	reading                 // the head of a request, since its first byte
	body                    // reading what follows the head, and throwing it away
	writing                 // deciding, and sending the response
	queued                  // the request waits for its place in line
	idle                    // waiting for the next request
	idleDenied              // the same, and the last answer was a denial
	lingering               // the last answer is out; what the client still sends is dropped
	opens                   // reading what comes before the first request, since its first byte
	asking                  // an upstream has the request, and its answer is awaited
	sending                 // the body of a request is awaited, for an upstream
	tunneling               // bytes go both ways; since the last one
	streaming               // a Session with streams, which have phases of their own
	phases
)

// waiting reports whether no byte of a request has arrived.
func (p phase) waiting() bool { return p == fresh || p == idle || p == idleDenied }

// Conn is a connection of a traffic listener. What every request reads comes
// first, on one cache line. Fields belong to the goroutine that serves the
// connection unless their comment says otherwise.
type Conn struct {
	net.Conn
	addr  netip.Addr    // of the client
	since atomic.Uint64 // phase<<32 | tick in which it began; other goroutines read it
	conns *Conns
	waits atomic.Pointer[waiting] // nil: no request has waited; other goroutines read it
	leave atomic.Bool             // its next answer is its last; other goroutines set it

	denied  bool // the last answer was a denial
	unborn  bool // fasthttp has it, and no byte of its first request has arrived yet
	special bool // reads are served by readSpecial
	mute    bool // writes are dropped

	woken   atomic.Bool // another goroutine has set a read deadline to make it read again
	evicted atomic.Bool // dismissed to make room, or reset
	unread  bool        // bytes of the last request may still arrive
	closed  bool        // no answer is possible any more

	wasReset atomic.Bool // see Reset

	options  *Options // of its listener when it was accepted; nil for a stream
	from     *Listener
	opening  *opening // what it goes through before its first request; nil: nothing
	stranger bool     // nothing has been read, and a PROXY header would be noted

	gate   gate   // what was read has passed it
	served uint32 // requests handled

	unsent unsent // answers to earlier requests that wait to be sent; nil: there are none
	link   link   // to the upstream that has the request

	replay []byte // what was read before fasthttp got the connection; has not passed the gate
	buffer []byte // of fasthttp's reader
	head   []byte // what came of a head that did not fit it
	rest   []byte // what came after the end of that head
	large  largeHead

	parent    *Session    // whose stream it is; nil: a connection of its own
	departure func() bool // ends the watch for the client of a stream

	// Guarded by conns.mu.
	session *Session        // its streams; nil: it speaks HTTP/1
	places  [groupKinds]int // index in each group; -1: not a member
	client  netip.Addr      // whom PerClient bounds; invalid: nobody
	peer    *group          // connections of client
	noted   uint64          // since, as the drain saw it
	looked  uint64          // since, as lookForFINs saw it
}

// enter begins a phase.
func (c *Conn) enter(p phase) {
	c.since.Store(uint64(p)<<32 | uint64(c.conns.tick.Load()))
}

func (c *Conn) phase() phase { return phase(c.since.Load() >> 32) }

// Read implements net.Conn for fasthttp's reader.
func (c *Conn) Read(p []byte) (int, error) {
	if c.special {
		return c.readSpecial(p)
	}
	n, err := c.receive(p)
	if c.unborn && n > 0 {
		c.begin(p)
	}
	if n == len(p) {
		c.noteFull(p)
	}
	return n, err
}

// begin notes that the first byte of the first request has arrived in p, which
// is the whole buffer of fasthttp's reader. On a new connection the time for the
// head has run since it was accepted, so that a client cannot get it twice.
func (c *Conn) begin(p []byte) {
	c.unborn, c.buffer = false, p
	if since := c.since.Load(); phase(since>>32) == fresh {
		c.since.Store(uint64(reading)<<32 | since&0xffffffff)
		return
	}
	c.enter(reading)
}

// receive reads from the socket, through the gate.
func (c *Conn) receive(p []byte) (int, error) {
	if over, err := c.gate.over(); over {
		return 0, err
	}
	n, err := c.receiveRaw(p)
	if n == 0 {
		return 0, err
	}
	if c.stranger {
		c.noteStranger(p[:n])
	}
	if n = c.gate.pass(p[:n]); n == 0 {
		_, err = c.gate.over()
	}
	return n, err
}

// receiveRaw reads from the socket. Another goroutine that wants the connection to
// end sets a deadline in the past. Whether it ends is decided here, by the reading
// goroutine, so that a request that has arrived by then is not lost.
func (c *Conn) receiveRaw(p []byte) (int, error) {
	if len(c.replay) > 0 {
		n := copy(p, c.replay)
		if c.replay = c.replay[n:]; len(c.replay) == 0 {
			c.replay = nil // the connection may live for hours
		}
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && (c.leave.Load() || c.woken.Load()) {
		return c.receiveLast(p, err)
	}
	return n, err
}

func (c *Conn) receiveLast(p []byte, timeout error) (int, error) {
	woken := c.woken.Swap(false)
	switch {
	case c.phase().waiting():
		_ = c.SetReadDeadline(time.Time{})
		n, err := c.lastRead(p)
		if errors.Is(err, errPartial) {
			c.enter(reading)
			return c.receiveRaw(p)
		}
		c.closed = n == 0
		return n, err
	case woken: // a request has begun: it is answered
		_ = c.SetReadDeadline(time.Time{})
		return c.receiveRaw(p)
	}
	return 0, timeout
}

func (c *Conn) lastRead(p []byte) (int, error) {
	if c.opening != nil && c.opening.tls != nil {
		return c.opening.tls.lastRead(c.Conn, p)
	}
	return lastRead(c.Conn, p)
}

// writeStep is how many bytes a client must take within the write timeout.
const writeStep = 16 << 10

// Write implements net.Conn. Each step restarts the phase of writing: the timeout
// bounds the time without progress, not that of the whole response.
func (c *Conn) Write(p []byte) (n int, err error) {
	if c.mute {
		return len(p), nil
	}
	for len(p)-n > writeStep {
		m, err := c.Conn.Write(p[n : n+writeStep])
		if n += m; err != nil {
			return n, err
		}
		c.enter(writing)
	}
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}

// Close implements net.Conn and does nothing: fasthttp calls it when it is done,
// and [Listener.serve] decides whether the connection goes on.
func (c *Conn) Close() error { return nil }

// dismiss makes the connection end: at once if no request has begun, else with
// the answer. Other goroutines call it.
func (c *Conn) dismiss() {
	c.leave.Store(true)
	c.wake()
}

// wake makes the connection end if nothing is left to read but the client's FIN. All that
// has been read by then is answered. Other goroutines call it.
func (c *Conn) wake() {
	c.woken.Store(true)
	_ = c.SetReadDeadline(longAgo)
}

// interrupt ends what the connection is doing. A read ends with a timeout, which
// the client is told; a write ends the connection; a request that waits is denied.
// Other goroutines call it.
func (c *Conn) interrupt(p phase) {
	switch p {
	case writing, opens, streaming:
		_ = c.SetDeadline(longAgo)
	case queued:
		c.endWait()
	case asking, tunneling:
		c.endWait()
		c.link.cut()
	default:
		_ = c.SetReadDeadline(longAgo)
	}
}

const (
	// lingerTime and lingerBytes bound what is read from a client that is still
	// sending after its last answer. Closing at once would reset the connection,
	// which may destroy the answer before the client has read it.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// finish closes the socket.
func (c *Conn) finish() {
	nc := c.Conn
	if o := c.opening; o != nil && o.tls != nil {
		o.tls.closing.Store(true)
		if !o.tls.secure {
			nc = o.raw
		}
	}
	if !c.closed && !c.evicted.Load() && (c.unread || c.leave.Load()) {
		c.linger(nc)
	}
	if c.wasReset.Load() { // by the end of its upstream it may get here before Reset has got to the socket
		resetOnClose(c.socket())
	}
	nc.Close()
	c.buffer, c.head, c.rest, c.replay = nil, nil, nil, nil
}

func (c *Conn) linger(nc net.Conn) {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.enter(lingering)
	_ = c.SetReadDeadline(time.Time{})
	buf := lingerBuffers.Get().(*[4096]byte)
	defer lingerBuffers.Put(buf)
	for total := 0; total < lingerBytes; {
		n, err := nc.Read(buf[:])
		if total += n; err != nil {
			return // the client has closed too, or its time is up
		}
	}
}

var lingerBuffers = sync.Pool{New: func() any { return new([4096]byte) }}
