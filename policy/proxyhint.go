package policy

import (
	"net/netip"
	"sync/atomic"
)

// ProxyHint detects a proxy in front that is not configured as trusted, so that all its
// clients share its address and limit. The zero value is ready to use. It is safe for
// concurrent use.
type ProxyHint struct {
	seen atomic.Uint64
}

// Note looks at one request. forwarded says that it has a forwarding header, whatever
// the value. It returns true the first time that there is reason to warn.
//
// Only peers on this machine or a private network count: on the internet anybody can
// send such a header, and would trigger the warning.
func (h *ProxyHint) Note(peer netip.Addr, trusted, forwarded bool) (warn bool) {
	if trusted || !forwarded {
		return false
	}
	if !peer.IsLoopback() && !peer.IsPrivate() && !peer.IsLinkLocalUnicast() {
		return false
	}
	return h.seen.Add(1) == 1
}

// Count is the number of requests that came through such a proxy.
func (h *ProxyHint) Count() uint64 { return h.seen.Load() }
