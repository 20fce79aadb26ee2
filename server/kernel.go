package server

import (
	"net"
	"net/netip"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/expel"
	"github.com/fastlimit/fastlimit/server/internal/metrics"
)

// Kernel drops the packets of banned clients and resets their connections, instead of answering each of their
// requests. SECURITY.md says which clients are never passed to it.
type Kernel struct {
	// Open makes the feed, whose kernel drops packets to these TCP addresses and ports. Listen calls it once,
	// when they are bound. The caller of Listen closes the feed after Serve.
	Open func(listens []netip.AddrPort) (*feed.Feed, error)

	// Table is its name on /v1/info.
	Table string
}

// openKernel starts to feed the kernel.
func (s *Server) openKernel() error {
	k := s.config().Kernel
	if k == nil {
		return nil
	}
	listens := tcpAddrs(s.Addrs())
	if len(listens) == 0 {
		s.config().Logger.Warn("kernel: no listener has a TCP port, so nothing can be dropped: banned clients are denied")
		return nil
	}
	f, err := k.Open(listens)
	if err != nil {
		return err
	}
	var balancers []netip.Prefix
	for i := range s.config().Listeners {
		balancers = append(balancers, s.config().Listeners[i].ProxyProtocol...)
	}
	e, err := expel.New(expel.Config{
		Feed: f, Machine: s.config().machine, AllowsSome: s.decide.AllowsSome, TrustsSome: s.decide.TrustsSome, OperatorsBan: s.decide.OperatorsBan, StillBanned: s.decide.StillBanned,
		Balancers: balancers, Reset: s.conns.Reset, Log: s.config().Logger,
	})
	if err != nil {
		return err
	}
	s.expel = e
	s.feed.Store(f)
	s.decide.SetExpeller(e)
	return nil
}

// tcpAddrs returns the TCP addresses.
func tcpAddrs(addrs []net.Addr) (all []netip.AddrPort) {
	for _, a := range addrs {
		if tcp, ok := a.(*net.TCPAddr); ok {
			all = append(all, tcp.AddrPort())
		}
	}
	return all
}

// held reports the peers whose packets the kernel drops.
func (s *Server) held(peer netip.Addr) bool {
	f := s.feed.Load()
	return f != nil && f.Holds(peer)
}

// KernelHolds reports whether the kernel drops an address's packets. It is safe for concurrent use.
func (s *Server) KernelHolds(a netip.Addr) bool { return s.held(a) }

// KernelForgets stops the kernel from dropping packets of all addresses in a prefix, because an operator has
// ended a ban. Clients that are still banned otherwise are passed to it again when they are denied. It is
// safe for concurrent use.
func (s *Server) KernelForgets(p netip.Prefix) {
	if s.feed.Load() != nil {
		s.expel.Forget(p)
	}
}

// rereadMachine is how many seconds pass between readings of this machine's addresses.
const rereadMachine = 60

// tickKernel is called once a second.
func (s *Server) tickKernel() {
	if s.expel == nil {
		return
	}
	if s.seconds++; s.seconds%rereadMachine == 0 {
		s.expel.Reread()
	}
}

// spare removes clients from the kernel that a change of the lists has allowed.
func (s *Server) spare() {
	if s.feed.Load() != nil {
		s.expel.Prune()
	}
}

// kernelInfo returns what /v1/info shows.
func (s *Server) kernelInfo() *admin.Kernel {
	f := s.feed.Load()
	if f == nil {
		return nil
	}
	st := f.Stats()
	mode := "enforce"
	if st.Shadow {
		mode = "shadow"
	}
	return &admin.Kernel{Table: s.config().Kernel.Table, Mode: mode, Up: st.Up, Bans: st.Held, MaxBans: st.Max}
}

// kernelStats returns what a scrape of /metrics reads.
func (s *Server) kernelStats() *metrics.Kernel {
	f := s.feed.Load()
	if f == nil {
		return nil
	}
	return &metrics.Kernel{Stats: f.Stats(), Refused: s.expel.Refused(), Resets: s.conns.Resets()}
}
