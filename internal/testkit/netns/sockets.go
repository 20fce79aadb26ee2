//go:build linux

package netns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Socket is an end of a TCP connection.
type Socket struct {
	State       string // as ss has it: ESTAB, SYN-RECV, …
	Local, Peer netip.AddrPort
}

// Closed reports whether no process has the socket: it was closed, and the kernel keeps it
// until the peer confirms that, or its handshake has not ended.
func (s Socket) Closed() bool {
	return slices.Contains([]string{"FIN-WAIT-1", "FIN-WAIT-2", "CLOSING", "LAST-ACK", "SYN-RECV"}, s.State)
}

// Sockets are those of the servers' connections with peers in a prefix, also what no
// process has accepted yet, but for TIME-WAIT, which is the memory of one that
// has ended.
func (w *World) Sockets(t testkit.T, peers ...netip.Prefix) (all []Socket) {
	t.Helper()
	for line := range strings.Lines(w.Output(t, "ss", "--no-header", "--tcp", "--all", "--numeric")) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] == "LISTEN" || f[0] == "TIME-WAIT" {
			continue
		}
		local, err1 := netip.ParseAddrPort(f[3])
		peer, err2 := netip.ParseAddrPort(f[4])
		if err1 != nil || err2 != nil {
			t.Fatalf("netns: ss printed %q", line)
		}
		s := Socket{f[0], unmapped(local), unmapped(peer)}
		for _, p := range peers {
			if p.Contains(s.Peer.Addr()) {
				all = append(all, s)
				break
			}
		}
	}
	return all
}

// unmapped is the address behind one that a socket of both families shows.
func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
