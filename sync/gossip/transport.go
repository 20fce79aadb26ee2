package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-sockaddr"
	"github.com/hashicorp/memberlist"
	"golang.org/x/time/rate"
)

const (
	// packetBytes is the largest UDP packet that a node sends: below the MTU of
	// Ethernet, with room for IPv6 and a tunnel.
	packetBytes = 1400
	// maxPacket is the largest packet accepted: what fits an Ethernet frame, so
	// that a later version may send more.
	maxPacket = 1500

	receiveBuffer = 2 << 20 // of the kernel; holds the packets of a tick from all peers

	// maxQueue is how many packets of counts may wait to be merged.
	maxQueue = 1024
	// maxStreams is how many nodes may send their list of members at a time.
	maxStreams = 16
	// A list of members has at most streamBase + max_nodes·streamPerNode bytes. It
	// includes nodes that went recently, see namesPerNode.
	streamBase, streamPerNode = 64 << 10, 1 << 10
)

// transport is memberlist's access to the network: UDP for packets, TCP for lists
// of members. Safe for concurrent use.
type transport struct {
	tcp     net.Listener
	udp     *net.UDPConn
	gate    *gate
	allowed *rate.Limiter // bytes of packets that may be sent
	packets chan *memberlist.Packet
	streams chan net.Conn
	counts  chan queued                              // of mergeQueued
	merge   func(counts []byte, from netip.AddrPort) // set before run
	refuse  func(reason string, from net.Addr)
	answer  func(question []byte) (answer []byte) // answers a question of another node, nil if it is none; set before run
	silent  atomic.Bool                           // neither sends nor passes anything on, except questions of twins

	done       context.Context // ends with the node
	stop       context.CancelFunc
	dialing    context.Context // ends earlier, so that Close need not wait for dials
	stopDials  context.CancelFunc
	goroutines sync.WaitGroup
	slots      chan struct{} // semaphore for incoming streams

	sent, received atomic.Uint64 // bytes, UDP and TCP
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// newTransport binds UDP and TCP to one port. It reads nothing until run.
func newTransport(c *Config, refuse func(string, net.Addr)) (*transport, error) {
	bind := c.Bind
	t := &transport{
		gate: newGate(c.Name, c.Secret, c.MaxNodes), allowed: c.allowance(),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), refuse: refuse,
		counts: make(chan queued, maxQueue), merge: func([]byte, netip.AddrPort) {},
		answer: func([]byte) []byte { return nil },
		slots:  make(chan struct{}, maxStreams),
	}
	t.done, t.stop = context.WithCancel(context.Background())
	t.dialing, t.stopDials = context.WithCancel(t.done)
	// The kernel picks a free TCP port; if the same UDP port is in use, retry.
	var err error
	for range 10 {
		if err = t.listen(bind); err == nil {
			return t, nil
		}
		if _, port, _ := net.SplitHostPort(bind); port != "0" {
			break
		}
	}
	return nil, bindError(bind, err)
}

func (t *transport) listen(bind string) error {
	ln, err := net.Listen("tcp", bind)
	if err != nil {
		return err
	}
	at, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		panic("BUG: gossip: a TCP listener without a TCP address")
	}
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone})
	if err != nil {
		ln.Close()
		return err
	}
	_ = udp.SetReadBuffer(receiveBuffer) // the kernel grants what it allows
	t.tcp, t.udp = ln, udp
	return nil
}

// bindError adds what to do about a failed bind.
func bindError(bind string, err error) error {
	fix := `write the address of this machine, for example bind: "10.0.0.1:7946"`
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		fix = "another process has the port, for UDP or TCP: stop that one, or choose another port"
	case errors.Is(err, syscall.EACCES):
		fix = "ports below 1024 need CAP_NET_BIND_SERVICE: choose one from 1024 on"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		fix = `no interface of this machine has the address: bind one that has, and put the other in advertise`
	}
	return fmt.Errorf("fastlimit/sync/gossip: cluster bind %s: %w; %s", bind, err, fix)
}

// queued is a packet of counts that waits to be merged.
type queued struct {
	counts []byte
	from   netip.AddrPort
}

// run starts to read the sockets.
func (t *transport) run() {
	t.goroutines.Go(t.receive)
	t.goroutines.Go(t.accept)
	t.goroutines.Go(t.mergeQueued)
}

// receive reads packets until the transport stops.
func (t *transport) receive() {
	buf, plain := make([]byte, maxPacket+1), make([]byte, maxPacket) // one byte more reveals truncation
	for waits := retryWaits(); ; {
		n, from, err := t.udp.ReadFromUDPAddrPort(buf)
		now := time.Now()
		switch {
		case t.done.Err() != nil:
			return
		case err != nil:
			t.refuse(reasonNetwork, net.UDPAddrFromAddrPort(from))
			t.pause(waits)
			continue
		}
		waits.Reset()
		t.received.Add(uint64(n))
		t.dispatch(buf[:n], plain, netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port()), now)
	}
}

// dispatch passes on a packet that the gate lets through: counts to mergeQueued,
// anything else to memberlist. The message is decrypted into buf. The packet is
// cloned, so that receive can reuse its buffers.
func (t *transport) dispatch(packet, buf []byte, at netip.AddrPort, now time.Time) {
	from := net.UDPAddrFromAddrPort(at)
	if len(packet) > maxPacket {
		t.refuse(reasonOversized, from)
		return
	}
	plain, reason := t.gate.packet(packet, buf)
	if reason != accepted {
		t.refuse(reason, from)
		return
	}
	if t.silent.Load() {
		return
	}
	if counts, ok := countsOf(plain); ok {
		select {
		case t.counts <- queued{bytes.Clone(counts), at}:
		default:
			t.refuse(reasonQueue, from)
		}
		return
	}
	select {
	case t.packets <- &memberlist.Packet{Buf: bytes.Clone(packet), From: from, Timestamp: now}:
	case <-t.done.Done():
	}
}

// mergeQueued merges packets of counts. It has its own goroutine because a merge
// may wait for delta's lock while the kernel's buffer fills.
func (t *transport) mergeQueued() {
	for {
		select {
		case q := <-t.counts:
			t.merge(q.counts, q.from)
		case <-t.done.Done():
			return
		}
	}
}

// retryWaits returns the waits after errors of a socket, which are usually transient.
func retryWaits() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 5 * time.Millisecond, MaxInterval: time.Second, Multiplier: 2}
}

// pause waits for the next of waits, or until the transport stops.
func (t *transport) pause(waits *backoff.ExponentialBackOff) {
	select {
	case <-time.After(waits.NextBackOff()):
	case <-t.done.Done():
	}
}

// WriteToAddress implements memberlist.NodeAwareTransport. A packet beyond the
// allowance is dropped without an error, as the network might have dropped it.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	to, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return time.Time{}, err
	}
	now := time.Now()
	if t.silent.Load() {
		return now, nil
	}
	if !t.allowed.AllowN(now, len(b)) {
		t.refuse(reasonBudget, nil)
		return now, nil
	}
	n, err := t.udp.WriteToUDPAddrPort(b, to)
	t.sent.Add(uint64(n))
	if err != nil && t.done.Err() == nil {
		t.refuse(reasonNetwork, net.UDPAddrFromAddrPort(to))
	}
	return time.Now(), err
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// FinalAdvertiseAddr implements memberlist.Transport. IPv4 addresses have four
// bytes, as memberlist compares them.
func (*transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	at, err := netip.ParseAddr(ip)
	return at.Unmap().AsSlice(), port, err
}

// advertise returns the address given to the other nodes: the configured one, else
// the bound one, or a private one of this machine if the bound one is unspecified.
func (t *transport) advertise(configured string) (netip.AddrPort, error) {
	if configured != "" {
		return netip.ParseAddrPort(configured)
	}
	at := t.addr()
	if !at.Addr().IsUnspecified() {
		return at, nil
	}
	text, _ := sockaddr.GetPrivateIP() // "" if there is none
	if private, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(private, at.Port()), nil
	}
	return at, fmt.Errorf("fastlimit/sync/gossip: cluster bind %v is every address, and this machine has no private one to tell the others; set advertise", at)
}

// addr returns the bound address, with the actual port.
func (t *transport) addr() netip.AddrPort {
	at := t.udp.LocalAddr().(*net.UDPAddr).AddrPort() // of a UDP socket
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// Shutdown implements memberlist.Transport. It waits for the goroutines of run.
func (t *transport) Shutdown() error {
	t.stop()
	err := errors.Join(t.tcp.Close(), t.udp.Close())
	t.goroutines.Wait()
	return err
}
