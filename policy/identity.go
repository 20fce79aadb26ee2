package policy

import (
	"errors"
	"net"
	"net/netip"
	"net/textproto"
	"strings"
	"unsafe"

	"github.com/gaissmai/bart"
)

// Identity tells who the client of a connection is: the peer itself or, where
// the peer is a trusted proxy, whom that names. It is immutable and safe for
// concurrent use. The zero value trusts nobody.
//
// The walk from the right is the rightmost-trusted algorithm of
// https://adam-p.ca/blog/2022/03/x-forwarded-for/.
type Identity struct {
	trusted   *bart.Lite // nil: nobody
	header    string
	forwarded bool // the header is Forwarded (RFC 7239)
	original  originalHeaders
	unnamed   OnUnnamed
}

// NewIdentity compiles the settings about proxies. The error joins everything
// that is wrong.
func NewIdentity(s Settings) (*Identity, error) {
	id := &Identity{header: s.ClientIPHeader, original: s.OriginalRequest.headers(), unnamed: s.OnUnnamed}
	if id.header == "" {
		id.header = "X-Forwarded-For"
	}
	id.forwarded = strings.EqualFold(id.header, "Forwarded")
	var errs []error
	if !isToken(id.header) {
		errs = append(errs, bad("ClientIPHeader", "want a header such as X-Forwarded-For", "%q is not the name of a header", id.header))
	}
	if s.OriginalRequest > OriginalXForwarded {
		errs = append(errs, bad("OriginalRequest", "want one of the constants", "%d: there is no such header family", s.OriginalRequest))
	}
	if s.OnUnnamed > UnnamedDeny {
		errs = append(errs, bad("OnUnnamed", "want one of the constants", "%d: there is no such choice", s.OnUnnamed))
	}
	for _, p := range s.TrustedProxies {
		n, err := normalPrefix("TrustedProxies", p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if id.trusted == nil {
			id.trusted = new(bart.Lite)
		}
		id.trusted.Insert(n)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	id.header = textproto.CanonicalMIMEHeaderKey(id.header)
	return id, nil
}

// Header is the name of the header that names the client, in the canonical form
// of [net/textproto.CanonicalMIMEHeaderKey].
func (id *Identity) Header() string { return id.header }

// OnUnnamed is what to do where [Identity.Client] returns [FromProxy].
func (id *Identity) OnUnnamed() OnUnnamed { return id.unnamed }

// Trusted reports whether the peer is a trusted proxy.
func (id *Identity) Trusted(peer netip.Addr) bool { return id.trusts(plain(peer)) }

func (id *Identity) trusts(plainPeer netip.Addr) bool {
	return id.trusted != nil && id.trusted.Contains(plainPeer)
}

// Origin tells how the client of a request is known.
type Origin uint8

// The origins of an address that [Identity.Client] returns.
const (
	// NoAddress: the peer has none that tells clients apart. Refuse the request,
	// as all such peers would share one key.
	NoAddress Origin = iota
	// FromPeer: the peer is not a trusted proxy, so it is the client.
	FromPeer
	// FromHeader: a trusted proxy named the client.
	FromHeader
	// FromProxy: a trusted proxy named nobody, or something that is no address.
	// The address is that proxy's, which all its clients share; [OnUnnamed] lists
	// what can be done.
	FromProxy
)

// Client returns the client of a request that came from peer, unmapped and
// without zone, and how it is known. values are all instances of the header
// [Identity.Header], in order; they are ignored unless the peer is trusted. At
// most 32 elements and 4 KiB are read, from the right. It does not allocate for
// elements that are addresses.
func (id *Identity) Client(peer netip.Addr, values [][]byte) (client netip.Addr, from Origin) {
	peer = plain(peer)
	switch {
	case !identifies(peer):
		return netip.Addr{}, NoAddress
	case !id.trusts(peer):
		return peer, FromPeer
	}
	client, named := id.walk(peer, values)
	if !named {
		return client, FromProxy
	}
	return client, FromHeader
}

// ClientString is [Identity.Client] for values as net/http and gRPC have them.
// It does not allocate for up to 8 values.
func (id *Identity) ClientString(peer netip.Addr, values []string) (client netip.Addr, from Origin) {
	var few [8][]byte
	raw := few[:0]
	for _, v := range values {
		raw = append(raw, unsafe.Slice(unsafe.StringData(v), len(v))) // is only read
	}
	return id.Client(peer, raw)
}

// walk goes from a trusted peer to the client. named tells that the header named
// it: it does not where the walk ends at a trusted proxy that wrote nothing, or
// something that is no address.
func (id *Identity) walk(peer netip.Addr, values [][]byte) (client netip.Addr, named bool) {
	hop := peer // the last one known
	w := newWalk(values, id.forwarded)
	for {
		element, more := w.next()
		if !more {
			// All of them are trusted: the first one sent the request itself.
			return hop, named && w.atEnd()
		}
		addr, valid := id.address(element)
		if !valid {
			return hop, false
		}
		hop, named = addr, true
		if !id.trusts(hop) {
			return hop, true
		}
	}
}

func (id *Identity) address(element []byte) (netip.Addr, bool) {
	if id.forwarded {
		var ok bool
		if element, ok = forParameter(element); !ok {
			return netip.Addr{}, false
		}
	}
	return parseNode(element)
}

// plain is the address that lists and keys know: unmapped, without zone.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// PeerAddr is the address of a TCP peer as a key can be made of it, unmapped and
// without zone, which names our interface and not the client. It is invalid for
// peers of other kinds, such as Unix sockets: nothing tells those apart.
func PeerAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap()
}

// originalHeaders are the names of the headers that name the original request,
// in canonical form, "" where the request's own value counts.
type originalHeaders struct{ method, target, host string }

func (o OriginalRequest) headers() originalHeaders {
	switch o {
	case OriginalXOriginal:
		return originalHeaders{method: "X-Original-Method", target: "X-Original-Uri"}
	case OriginalXForwarded:
		return originalHeaders{"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"}
	}
	return originalHeaders{}
}
