package policy

import (
	"net/netip"
	"sync/atomic"
)

// Identity tells who the client of a connection is. It is immutable and safe
// for concurrent use.
type Identity struct {
	header string
}

// NewIdentity compiles TrustedProxies and ClientIPHeader.
func NewIdentity(s Settings) (*Identity, error) { return &Identity{header: s.ClientIPHeader}, nil }

// Header is the name of the header that names the client. Read it, and the
// headers of [OriginalRequest], only where [Identity.Trusted].
func (id *Identity) Header() string { return id.header }

// Trusted tells whether the peer is a trusted proxy.
func (id *Identity) Trusted(peer netip.Addr) bool { return false }

// Client returns the client of a request that came from peer: values are all
// instances of the header in order; they are ignored unless the peer is
// trusted. fromHeader tells that the header named the client. ok is false if
// the peer is no address that a client can have: refuse such a connection, as
// all of them would share one key.
func (id *Identity) Client(peer netip.Addr, values [][]byte) (client netip.Addr, fromHeader, ok bool) {
	return peer.Unmap().WithZone(""), false, peer.IsValid() && !peer.IsUnspecified()
}

// Headers returns the names of the headers that name the original request, ""
// where the request's own value counts.
func (o OriginalRequest) Headers() (method, uri, host string) { return "", "", "" }

// ProxyHint notices a proxy in front that is not trusted, so that everybody
// shares its address. The zero value is ready. It is safe for concurrent use.
type ProxyHint struct {
	seen   atomic.Uint64
	warned atomic.Bool
}

// Note looks at one request: forwarded tells that it has forwarding headers.
// It returns true once, when it is time to warn.
func (h *ProxyHint) Note(peer netip.Addr, trusted, forwarded bool) (warn bool) { return false }

// Count is the number of requests that looked like it.
func (h *ProxyHint) Count() uint64 { return h.seen.Load() }
