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
	// packetBytes is the most that a node sends in a UDP packet: below the MTU
	// of Ethernet with room for IPv6 and a tunnel.
	packetBytes = 1400
	// maxPacket is the most that is read of one: what fits an Ethernet frame,
	// so that a later version may send more.
	maxPacket = 1500

	receiveBuffer = 2 << 20 // of the kernel: a tick's packets from all peers

	// maxQueue is how many packets of counts wait to be merged.
	maxQueue = 1024
	// maxStreams is how many others may send their list of members at a time.
	maxStreams = 16
	// A list of members takes at most so many bytes. memberlist tells of the
	// nodes that are gone for a while, see members.admit.
	streamBase, streamPerNode = 64 << 10, 1 << 10
)

// transport is memberlist's way to the network: UDP for packets, TCP for lists
// of members. Safe for concurrent use.
type transport struct {
	tcp     net.Listener
	udp     *net.UDPConn
	gate    *gate
	allowed *rate.Limiter // bytes of packets that may be sent
	packets chan *memberlist.Packet
	streams chan net.Conn
	counts  chan []byte         // packets of counts, for merge
	merge   func(counts []byte) // set before run
	refuse  func(reason string, from net.Addr)
	asked   func(question []byte) (answer []byte) // by another node; set before run
	silent  atomic.Bool                           // towards memberlist and its network: another node has this one's name

	done       context.Context // ends with the node
	stop       context.CancelFunc
	dialing    context.Context // ends before it: no more streams to others
	stopDials  context.CancelFunc
	goroutines sync.WaitGroup
	slots      chan struct{} // taken by incoming streams

	sent, received atomic.Uint64 // bytes, UDP and TCP
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// newTransport binds UDP and TCP to one port. It serves nobody until run.
func newTransport(c *Config, refuse func(string, net.Addr)) (*transport, error) {
	bind := c.Bind
	t := &transport{
		gate: newGate(c.Name, c.Secret, c.MaxNodes), allowed: c.allowance(),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), refuse: refuse,
		counts: make(chan []byte, maxQueue), merge: func([]byte) {},
		asked: func([]byte) []byte { return nil },
		slots: make(chan struct{}, maxStreams),
	}
	t.done, t.stop = context.WithCancel(context.Background())
	t.dialing, t.stopDials = context.WithCancel(t.done)
	// UDP and TCP have ports of their own: one that is free for both takes a
	// few attempts if any port will do.
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
	_ = udp.SetReadBuffer(receiveBuffer) // the kernel gives what it allows
	t.tcp, t.udp = ln, udp
	return nil
}

// bindError says what to do.
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

// run starts to read the sockets.
func (t *transport) run() {
	t.goroutines.Go(t.receive)
	t.goroutines.Go(t.accept)
	t.goroutines.Go(t.mergeQueued)
}

// receive reads packets.
func (t *transport) receive() {
	buf, plain := make([]byte, maxPacket+1), make([]byte, maxPacket) // one more shows what was cut
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
		source := net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		t.take(buf[:n], plain, source, now)
	}
}

// take hands a packet on that passes the gate: one of counts to merge, any other
// to memberlist. Its message is decrypted into buf.
func (t *transport) take(packet, buf []byte, from net.Addr, now time.Time) {
	if len(packet) > maxPacket {
		t.refuse(reasonOversized, from)
		return
	}
	plain, reason := t.gate.packet(packet, buf)
	if reason != quiet {
		t.refuse(reason, from)
		return
	}
	if t.silent.Load() {
		return
	}
	if counts, ok := countsOf(plain); ok {
		select {
		case t.counts <- bytes.Clone(counts):
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

// mergeQueued merges packets of counts, which can take longer than to read them.
func (t *transport) mergeQueued() {
	for {
		select {
		case counts := <-t.counts:
			t.merge(counts)
		case <-t.done.Done():
			return
		}
	}
}

// retryWaits are the waits after errors of a socket, which mostly pass.
func retryWaits() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 5 * time.Millisecond, MaxInterval: time.Second, Multiplier: 2}
}

// pause waits for the next of them.
func (t *transport) pause(waits *backoff.ExponentialBackOff) {
	select {
	case <-time.After(waits.NextBackOff()):
	case <-t.done.Done():
	}
}

// WriteToAddress implements memberlist.NodeAwareTransport.
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

// FinalAdvertiseAddr implements memberlist.Transport.
func (*transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return canonical(net.ParseIP(ip)), port, nil
}

// advertise is the address that the others get: what was configured, or the bound
// address, or if that is every address a private one of this machine.
func (t *transport) advertise(configured string) (netip.AddrPort, error) {
	if configured != "" {
		return netip.ParseAddrPort(configured)
	}
	at := t.addr()
	if !at.Addr().IsUnspecified() {
		return at, nil
	}
	text, err := sockaddr.GetPrivateIP()
	if err == nil && text != "" {
		var private netip.Addr
		if private, err = netip.ParseAddr(text); err == nil {
			return netip.AddrPortFrom(private, at.Port()), nil
		}
	}
	return at, fmt.Errorf("fastlimit/sync/gossip: cluster bind %v is every address, and this machine has no private one to tell the others; set advertise", at)
}

// canonical is four bytes for IPv4, as memberlist compares addresses.
func canonical(ip net.IP) net.IP {
	if v4 := ip.To4(); v4 != nil {
		return v4
	}
	return ip
}

// addr is the bound address, port 0 resolved.
func (t *transport) addr() netip.AddrPort {
	at := t.udp.LocalAddr().(*net.UDPAddr).AddrPort() //nolint:forcetypeassert // of a UDP socket
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// Shutdown implements memberlist.Transport. It waits for receive and accept.
func (t *transport) Shutdown() error {
	t.stop()
	err := errors.Join(t.tcp.Close(), t.udp.Close())
	t.goroutines.Wait()
	return err
}
