//go:build linux

// Package faultproxy is a TCP proxy that misbehaves on purpose, for tests. The
// fault can change while connections are open; random ones are reproducible by
// their seed.
//
// The network is simulated at the level of one host: there is no loss or
// reordering of packets, only what a TCP client can see of it.
package faultproxy

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Fault is what happens to traffic. The zero value forwards faithfully.
type Fault struct {
	Refuse    bool          // do not listen
	BlackHole bool          // neither accept nor refuse connections, as if packets were dropped
	Silent    bool          // accept, swallow requests, never answer
	Delay     time.Duration // before each piece of an answer
	Slice     int           // write answers in pieces of this many bytes
	Garbage   []byte        // answer this instead
	ResetAt   int           // reset the connection after this many bytes of answer
	CloseAt   int           // close it instead
	// ResetOneIn resets the connection instead of passing on one in so many
	// pieces of answer, and half of the times one of the request.
	ResetOneIn int
	LoseNext   bool // reset the connection instead of passing on the next piece of answer, once
}

// deaf reports whether no connection gets through.
func (f *Fault) deaf() bool { return f.Refuse || f.BlackHole }

// Proxy stands between a client and one server. It is safe for concurrent
// use. The zero value is not usable: call [New].
type Proxy struct {
	addr, target string

	mu       sync.Mutex // guards all below
	fault    Fault
	rand     *rand.Rand
	listener net.Listener // nil while the proxy is deaf, and in the end
	hole     func()       // closes the black hole, nil where there is none
	conns    map[net.Conn]struct{}
	closed   bool

	wg sync.WaitGroup
}

// New starts a proxy to target on a free port and stops it when the test ends.
func New(t testkit.T, target string, seed uint64) *Proxy {
	t.Helper()
	return NewAt(t, "127.0.0.1:0", target, seed)
}

// NewAt is [New] on the given address.
func NewAt(t testkit.T, addr, target string, seed uint64) *Proxy {
	t.Helper()
	l := listen(t, addr)
	p := &Proxy{
		addr: l.Addr().String(), target: target, listener: l,
		rand: rand.New(rand.NewPCG(seed, 0)), conns: make(map[net.Conn]struct{}),
	}
	p.wg.Go(func() { p.accept(l) })
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Set changes the fault, for open connections too.
func (p *Proxy) Set(t testkit.T, f Fault) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	p.stopLocked(f.deaf())
	if f.BlackHole {
		_, p.hole = blackHole(t, p.addr)
	}
	if !f.deaf() && p.listener == nil && !p.closed {
		l := listen(t, p.addr)
		p.listener = l
		p.wg.Go(func() { p.accept(l) })
	}
}

// listen listens at an address that another process may have for a moment.
func listen(t testkit.T, addr string) (l net.Listener) {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // one queue, whose length shortenQueue sets
	testkit.Eventually(t, "faultproxy: listening at "+addr, func() bool {
		var err error
		l, err = config.Listen(context.Background(), "tcp", addr)
		return err == nil
	})
	return l
}

// stopLocked closes the black hole, if there is one, and where all is true the
// listener and what it has accepted too.
func (p *Proxy) stopLocked(all bool) {
	if p.hole != nil {
		p.hole()
		p.hole = nil
	}
	if all && p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
		p.cutLocked()
	}
}

// Cut resets all open connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *Proxy) cutLocked() {
	for c := range p.conns {
		reset(c)
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.stopLocked(true)
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		reset(client)
		return
	}
	if !p.add(client, server) {
		return
	}
	defer p.remove(client, server)
	var up sync.WaitGroup
	up.Go(func() { p.forward(server, client, p.request) })
	p.forward(client, server, p.answer)
	up.Wait()
}

// forward copies until either side ends or step returns false. It then resets
// both: closing with FIN would deliver what is still in flight, and look like an
// orderly end to the client.
func (p *Proxy) forward(dst, src net.Conn, step func(dst net.Conn, b []byte, sent int) bool) {
	defer func() { reset(dst); reset(src) }()
	buf := make([]byte, 16<<10)
	for sent := 0; ; {
		n, err := src.Read(buf)
		if n > 0 && !step(dst, buf[:n], sent) {
			return
		}
		sent += n
		if err != nil {
			return
		}
	}
}

func (p *Proxy) request(dst net.Conn, b []byte, _ int) bool {
	f, hit := p.current()
	if f.Silent {
		return true
	}
	if hit && p.coin() {
		return false
	}
	_, err := dst.Write(b)
	return err == nil
}

func (p *Proxy) answer(dst net.Conn, b []byte, sent int) bool {
	f, hit := p.current()
	switch {
	case f.Silent:
		return true
	case hit, p.losesNext():
		return false
	case f.Garbage != nil:
		b = f.Garbage
	}
	if f.ResetAt > 0 && sent+len(b) >= f.ResetAt {
		_, _ = dst.Write(b[:max(0, f.ResetAt-sent)])
		return false
	}
	if f.CloseAt > 0 && sent+len(b) >= f.CloseAt {
		_, _ = dst.Write(b[:max(0, f.CloseAt-sent)])
		_ = dst.Close()
		return false
	}
	piece := len(b)
	if f.Slice > 0 {
		piece = f.Slice
	}
	for len(b) > 0 {
		time.Sleep(f.Delay)
		n := min(piece, len(b))
		if _, err := dst.Write(b[:n]); err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}

func (p *Proxy) current() (f Fault, hit bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.fault.ResetOneIn > 0 && p.rand.IntN(p.fault.ResetOneIn) == 0
}

func (p *Proxy) losesNext() (loses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	loses, p.fault.LoseNext = p.fault.LoseNext, false
	return loses
}

func (p *Proxy) coin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(2) == 0
}

// add notes two connected sides, or resets both where they came too late.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.closed || p.fault.deaf()
	for _, c := range conns {
		if late {
			reset(c)
		} else {
			p.conns[c] = struct{}{}
		}
	}
	return !late
}

func (p *Proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
		_ = c.Close()
	}
}

// reset closes with RST instead of FIN: what was sent may be lost.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
