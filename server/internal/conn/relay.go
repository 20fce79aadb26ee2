package conn

import (
	"context"
	"sync"
)

// Relay is a connection for a proxy, which reads its requests itself ([Handlers].Relay) or has their heads
// read for it ([Handlers].Answer), and passes them on. Its methods are for the connection's goroutine;
// Receiving, Await and Fill are also for the one that sends the body.
type Relay struct{ *Conn }

// Fill reads more bytes of requests whose framing the caller checks into p. It waits as long as the phase of
// the connection allows.
func (c Relay) Fill(p []byte) (int, error) {
	n, err := c.receiveRaw(p)
	if n == 0 {
		return 0, err
	}
	if c.in.stranger {
		c.noteStranger(p[:n])
	}
	if c.phase().waiting() {
		c.arrive(reading, c.conns.tick.Load())
	}
	return n, nil
}

// Note counts a request whose head Fill has delivered, before [Conn.BeginRequest]. last: no other request
// follows it. forwarded: it has a forwarding header.
func (c Relay) Note(last, forwarded bool) {
	c.in.gate.skip(&Head{close: last, forwarded: forwarded})
}

// Ask records that an upstream has the request. If the client leaves, or has to make room, before
// [Relay.Asked], by.Interrupt is called.
func (c Relay) Ask(by Interrupter) {
	c.awaits.upstream.set(by)
	c.enter(asking)
	if c.givenUp() || c.orders.reset.Load() { // from before there was an upstream
		c.awaits.upstream.cut()
	}
}

// Await records that the upstream is being waited for again.
func (c Relay) Await() { c.enter(asking) }

// Asked ends what Ask has begun, before the rest of the answer is sent. It reports whether Interrupt was
// called.
func (c Relay) Asked() (cut bool) {
	c.enter(writing)
	return c.awaits.upstream.end()
}

// Receiving records that the upstream needs the body of the request. The client must send some of it within
// the write timeout. It has no effect while an answer is being sent, which has its own timeout: otherwise a
// client that does not read could escape it.
func (c Relay) Receiving() { c.replace(asking, sending, c.conns.tick.Load()) }

// Received records that some of it has arrived.
func (c Relay) Received() { c.replace(sending, asking, c.conns.tick.Load()) }

// Tunneling records that bytes have gone through an upgraded connection.
func (c Relay) Tunneling() {
	c.enter(tunneling)
	if c.conns.noTunnels.Load() { // EndTunnels may have been called during another phase
		c.awaits.upstream.cut()
	}
}

// StopReceiving ends a read that waits for the client, and all later ones.
func (c Relay) StopReceiving() { _ = c.SetReadDeadline(longAgo) }

// Secure reports whether requests come through TLS.
func (c Relay) Secure() bool {
	return c.parent != nil && Relay{c.parent.c}.Secure() || c.opening != nil && c.opening.tls != nil
}

// BeginLarge records that the connection has memory for a long head, as only a few may, until end is called.
func (c Relay) BeginLarge() (end func()) {
	c.conns.admitLarge(c.Conn)
	return func() { c.conns.leaveLarge(c.Conn) }
}

// HeadBytes bounds the head of a request.
func (c Relay) HeadBytes() int { return c.conns.limits.HeadBytes }

// Unread gives back what Fill has delivered and the caller has not used, for the next reader.
func (c Relay) Unread(p []byte) { c.in.unread(p) }

// BeginQueue is [Conn.BeginWait] for a request that was admitted and waits for an upstream, after all answers
// were sent ([Relay.Send]). Its client exceeds no limit, so it does not make room for others; nor is it sent away
// if its leaving cannot be noticed.
func (c Relay) BeginQueue() context.Context { return c.beginWait(asking) }

// EndQueue ends what BeginQueue has begun.
func (c Relay) EndQueue() { c.endWait() }

// Send sends answers: all of out except what was already sent. It returns the memory of out that may be
// reused.
func (c Relay) Send(out []byte) ([]byte, error) { return c.send(out) }

// EndAnswer notes that a whole answer was sent.
func (c Relay) EndAnswer() { c.endAnswer() }

// Break shows the client that the answer is incomplete: the connection is reset.
func (c Relay) Break() {
	c.out.closed = true
	resetOnClose(c.socket())
}

// Interrupter is what [Relay.Ask] calls.
type Interrupter interface {
	// Interrupt ends the exchange with the upstream. Any goroutine may call it.
	Interrupt()
}

// link interrupts the upstream that has the request. Once end has returned nobody touches the upstream any
// more, which may have another client's request by then.
type link struct {
	mu   sync.Mutex
	to   Interrupter // nil: no upstream has the request
	done bool        // it was interrupted
}

func (l *link) set(to Interrupter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.done = to, false
}

func (l *link) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = nil
	return l.done
}

// cut interrupts the upstream. Any goroutine may call it.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to != nil && !l.done {
		l.done = true
		l.to.Interrupt()
	}
}
