package policy

import (
	"net/netip"
	"sync/atomic"
)

// ProxyHint notices a proxy in front that nobody declared trusted, so that
// all its clients share its address and its limit. The zero value is ready. It
// is safe for concurrent use.
type ProxyHint struct {
	seen atomic.Uint64
}

// Note looks at one request. forwarded tells that it has a forwarding header,
// whatever the value. It returns true once: warn then.
//
// Only peers on this machine or a private network count; anybody else on the
// internet may write such a header to have the warning logged.
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
