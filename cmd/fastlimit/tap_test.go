package main

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// tap stands in front of a node's cluster port, for UDP and TCP, and keeps what
// passes: what somebody sees who listens between the nodes.
type tap struct {
	tcp net.Listener
	udp *net.UDPConn
	wg  sync.WaitGroup

	mu      sync.Mutex // guards all below
	target  string
	packets [][]byte
	streams [][]byte // what those who dialed have sent
	conns   []net.Conn
}

func newTap(t *testing.T) *tap {
	t.Helper()
	p := &tap{}
	for range 10 { // UDP and TCP have ports of their own
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := ln.Addr().(*net.TCPAddr)
		if udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port}); err == nil {
			p.tcp, p.udp = ln, udp
			break
		}
		ln.Close()
	}
	if p.udp == nil {
		t.Fatal("no port is free for UDP and TCP")
	}
	p.wg.Go(p.packetLoop)
	p.wg.Go(p.streamLoop)
	t.Cleanup(func() {
		p.tcp.Close()
		p.udp.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *tap) addr() string { return p.tcp.Addr().String() }

func (p *tap) forwardTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *tap) to() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// seen is what has passed so far.
func (p *tap) seen() (packets, streams [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.packets), slices.Clone(p.streams)
}

// packetLoop forwards one way: replies go to where their receiver advertises.
func (p *tap) packetLoop() {
	for buf := make([]byte, 2048); ; {
		n, err := p.udp.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.packets = append(p.packets, slices.Clone(buf[:n]))
		p.mu.Unlock()
		if to, err := net.ResolveUDPAddr("udp", p.to()); err == nil {
			_, _ = p.udp.WriteToUDP(buf[:n], to)
		}
	}
}

func (p *tap) streamLoop() {
	for {
		in, err := p.tcp.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to())
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		i := len(p.streams)
		p.streams = append(p.streams, nil)
		p.mu.Unlock()
		p.wg.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		p.wg.Go(func() { _, _ = io.Copy(io.MultiWriter(&recorder{p, i}, out), in); out.Close() })
	}
}

// recorder keeps what is sent on a stream.
type recorder struct {
	tap *tap
	i   int
}

func (r *recorder) Write(b []byte) (int, error) {
	r.tap.mu.Lock()
	defer r.tap.mu.Unlock()
	r.tap.streams[r.i] = append(r.tap.streams[r.i], b...)
	return len(b), nil
}
