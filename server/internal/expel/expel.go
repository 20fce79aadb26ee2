package expel

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/internal/nat64"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// Reason is why a banned client is not passed to the kernel. The set is closed: it is a label.
type Reason uint8

// The reasons, in the order in which they are checked.
const (
	NotRefused    Reason = iota
	ByHeader             // a header of a trusted proxy named the client
	ByProxyHeader        // a PROXY header named it
	Translated           // the peer is an IPv4 client behind a translator, whose packets have another address
	ByKey                // its rule counts by more than the address
	Forwards             // the peer seems to be a proxy that is not configured
	Loopback
	Own        // an address of this machine
	Gateway    // of this machine
	Allowed    // by the allow list
	Trusted    // a trusted proxy
	Balancer   // one that sends PROXY headers
	numReasons // the feed has more
)

var reasonNames = [numReasons]string{"", "header", "proxy_protocol", "nat64", "key", "proxy", "loopback", "own", "gateway", "allow", "trusted", "balancer"}

// Config configures an [Expeller]. All of it is required.
type Config struct {
	Feed    *feed.Feed
	Machine func() (Machine, error) // reads it
	// AllowsSome and TrustsSome report whether an address of a prefix is on the allow list, or a trusted
	// proxy. They are called for each ban that is new to the kernel.
	AllowsSome, TrustsSome func(netip.Prefix) bool
	// OperatorsBan returns the prefix by which operators have banned an address.
	OperatorsBan func(netip.Addr) (netip.Prefix, bool)
	// StillBanned reports whether a client's ban has not been ended meanwhile.
	StillBanned func(decide.Banned) bool

	Balancers []netip.Prefix             // that send PROXY headers
	Reset     func(netip.Prefix) (n int) // resets all connections of a prefix
	Log       *slog.Logger
}

// Expeller implements [decide.Expeller]. Its methods are safe for concurrent use, except Reread.
type Expeller struct {
	config  Config
	machine atomic.Pointer[Machine]
	refused [numReasons]atomic.Uint64
	failing bool // the last reading of the machine failed; used by Reread
}

// New reads the machine, and fails if that does: without its own addresses nobody could be passed to the
// kernel.
func New(c Config) (*Expeller, error) {
	m, err := c.Machine()
	if err != nil {
		return nil, err
	}
	e := &Expeller{config: c}
	e.machine.Store(&m)
	return e, nil
}

// Expel implements [decide.Expeller]: it passes the client to the kernel if allowed, and resets its
// connections, including this one.
func (e *Expeller) Expel(b decide.Banned) {
	switch {
	case b.Named:
		e.refuse(ByHeader)
	case b.Conn.Named():
		e.refuse(ByProxyHeader)
	case nat64.Client(b.Conn.Addr()) != b.Conn.Addr():
		e.refuse(Translated)
	case e.config.Feed.Holds(b.Client): // it was in the middle of a request, or pretends to be a proxy
		b.Conn.Reset()
	case !b.Prefix.IsValid():
		e.refuse(ByKey)
	case b.Conn.Forwarded():
		e.refuse(Forwards)
	case b.Prefix.Contains(localAddr(b.Conn.LocalAddr())): // it may be newer than the last reading
		e.refuse(Own)
	default:
		e.give(b)
	}
}

// give passes the client to the kernel: the whole prefix that an operator has banned, or only the client if
// that is not allowed.
func (e *Expeller) give(b decide.Banned) {
	if b.Rule == nil {
		p, ok := e.config.OperatorsBan(b.Client)
		if !ok { // it has ended
			return
		}
		if p.Bits() >= b.Prefix.Bits() { // no more than that
			b.Prefix = p
		} else if e.Spares(p) == NotRefused && e.send(p, b) {
			return
		}
	}
	if why := e.Spares(b.Prefix); why != NotRefused {
		e.refuse(why)
		return
	}
	e.send(b.Prefix, b)
}

// send passes a prefix to the kernel, and resets connections unless the kernel fails. Code that ends a ban,
// or spares a prefix, does so before it updates the feed: if that was too early to remove this prefix, it is
// noticed here.
func (e *Expeller) send(p netip.Prefix, b decide.Banned) bool {
	f := e.config.Feed
	if !f.Add(p, b.Left) {
		return false
	}
	if !e.config.StillBanned(b) || e.Spares(p) != NotRefused {
		f.Remove(p)
		return true
	}
	if f.Holds(b.Client) {
		e.config.Reset(p)
	}
	return true
}

func localAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

func (e *Expeller) refuse(why Reason) { e.refused[why].Add(1) }

// Spares says why no prefix with these addresses may be passed to the kernel.
func (e *Expeller) Spares(p netip.Prefix) Reason {
	m := e.machine.Load()
	if overlaps(m.Loopback, p) {
		return Loopback
	}
	switch why := m.Has(p); {
	case why != NotRefused:
		return why
	case e.config.AllowsSome(p):
		return Allowed
	case e.config.TrustsSome(p):
		return Trusted
	case overlaps(e.config.Balancers, p):
		return Balancer
	}
	return NotRefused
}

func overlaps(all []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(all, p.Overlaps)
}

// Reread reads the machine again, and removes from the kernel what must be spared from now on. It keeps the
// last reading if that fails. Call it now and then, and when a list has changed, from one goroutine at a
// time.
func (e *Expeller) Reread() {
	m, err := e.config.Machine()
	switch {
	case err == nil:
		e.machine.Store(&m)
	case !e.failing:
		e.config.Log.Warn("this machine's addresses and gateways cannot be read again: only those known before are kept out of the kernel", slog.String("error", err.Error()))
	}
	e.failing = err != nil
	e.Prune()
}

// Prune removes from the kernel what must be spared.
func (e *Expeller) Prune() {
	e.config.Feed.RemoveFunc(func(p netip.Prefix) bool { return e.Spares(p) != NotRefused })
}

// Forget removes a prefix and everything within it from the kernel: an operator has ended a ban. Clients that
// are still banned otherwise are passed to it again when denied.
func (e *Expeller) Forget(p netip.Prefix) {
	e.config.Feed.RemoveFunc(func(held netip.Prefix) bool { return held.Bits() >= p.Bits() && p.Contains(held.Addr()) })
}

// ForgetFunc is Forget for all prefixes for which gone returns true.
func (e *Expeller) ForgetFunc(gone func(netip.Prefix) bool) { e.config.Feed.RemoveFunc(gone) }

// Refused returns how many denials of banned clients were not passed to the kernel, by reason, including the
// feed's.
func (e *Expeller) Refused() map[string]uint64 {
	all := e.config.Feed.Stats().Refused
	for why := NotRefused + 1; why < numReasons; why++ {
		all[reasonNames[why]] = e.refused[why].Load()
	}
	return all
}
