package policy

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

// ProxyHint detects a proxy in front of the node that is not configured as trusted, so that
// all its clients share its address and limit. The zero value is ready to use. It is safe
// for concurrent use.
type ProxyHint struct {
	seen  atomic.Uint64
	peers atomic.Pointer[[]netip.Addr] // the first hintedPeers proxies; replaced as a whole
}

// hintedPeers is how many proxies a hint names.
const hintedPeers = 8

// Note looks at one request. forwarded says that it has a forwarding header, whatever the
// value. It returns true the first time that there is reason to warn.
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
	h.name(plain(peer))
	return h.seen.Add(1) == 1
}

// name records the address of a proxy.
func (h *ProxyHint) name(peer netip.Addr) {
	for {
		var known []netip.Addr
		old := h.peers.Load()
		if old != nil {
			known = *old
		}
		if len(known) == hintedPeers || slices.Contains(known, peer) {
			return
		}
		if next := append(slices.Clip(known), peer); h.peers.CompareAndSwap(old, &next) {
			return
		}
	}
}

// Peers returns the first of these proxies, in the order in which they were seen.
func (h *ProxyHint) Peers() []netip.Addr {
	if p := h.peers.Load(); p != nil {
		return *p
	}
	return nil
}

// Count returns the number of requests that came through such a proxy.
func (h *ProxyHint) Count() uint64 { return h.seen.Load() }

// UnnamedHint counts unnamed requests, see [UnnamedAction]. The zero value is ready to use.
// It is safe for concurrent use.
type UnnamedHint struct {
	seen            atomic.Uint64
	client, request atomic.Bool // whether Note has already returned true for it
}

// Note counts one request. It returns true, which is a reason to warn, the first time that
// a client is missing, and the first time that a request is.
func (h *UnnamedHint) Note(noClient, noRequest bool) (warn bool) {
	h.seen.Add(1)
	warn = noClient && h.client.CompareAndSwap(false, true)
	return noRequest && h.request.CompareAndSwap(false, true) || warn
}

// Count returns the number of requests noted.
func (h *UnnamedHint) Count() uint64 { return h.seen.Load() }
