package policy

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"net/textproto"
	"strings"
	"unsafe"

	"github.com/fastlimit/fastlimit/internal/nat64"
	"github.com/gaissmai/bart"
)

// Identity determines the client of a request: the peer of the connection or, if that is a
// trusted proxy, the address that it names. It is immutable and safe for concurrent use.
// The zero value trusts no peer.
//
// The walk from the right is the rightmost-trusted algorithm of
// https://adam-p.ca/blog/2022/03/x-forwarded-for/.
type Identity struct {
	trusted   addrSet // nil: none
	header    string
	forwarded bool // the header is Forwarded (RFC 7239)
	single    bool // the header names one address, never a chain of them
	original  originalHeaders
	unnamed   UnnamedAction
}

// NewIdentity compiles the settings about proxies. The error joins everything
// that is wrong.
func NewIdentity(s Settings) (*Identity, error) {
	id := &Identity{header: s.ClientIPHeader, unnamed: s.OnUnnamed}
	if id.header == "" {
		id.header = "X-Forwarded-For"
	}
	id.forwarded = strings.EqualFold(id.header, "Forwarded")
	var errs []error
	if !isToken(id.header) {
		errs = append(errs, invalid("ClientIPHeader", "want a header such as X-Forwarded-For", "%q is not the name of a header", id.header))
	}
	if s.OriginalRequest > OriginalXForwarded {
		errs = append(errs, invalid("OriginalRequest", "want one of the constants", "%d: there is no such header family", s.OriginalRequest))
	} else {
		id.original = originalNames[s.OriginalRequest]
	}
	if s.OnUnnamed > UnnamedDeny {
		errs = append(errs, invalid("OnUnnamed", "want one of the constants", "%d: there is no such choice", s.OnUnnamed))
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
	id.single = singleFields[id.header]
	return id, nil
}

// singleFields are the fields in which proxies name one address, by their canonical names.
// Of two addresses, in one field or in several, one may come from the client, and which one
// depends on the proxy; so two name no client. All other fields are chains of proxies.
var singleFields = map[string]bool{
	"Cf-Connecting-Ip": true, "Cf-Connecting-Ipv6": true, "Cf-Pseudo-Ipv4": true, // Cloudflare
	"True-Client-Ip":           true, // Akamai, Cloudflare
	"Fastly-Client-Ip":         true,
	"Fly-Client-Ip":            true,
	"Do-Connecting-Ip":         true, // DigitalOcean
	"X-Azure-Clientip":         true, // Azure Front Door
	"X-Appengine-User-Ip":      true, // Google App Engine
	"X-Envoy-External-Address": true,
	"X-Real-Ip":                true, // nginx and others
	"X-Client-Ip":              true,
}

// WithOriginal returns an identity that differs in the headers which name the original
// request. It panics if there is no such family.
func (id *Identity) WithOriginal(o OriginalRequest) *Identity {
	next := *id
	next.original = originalNames[o]
	return &next
}

// Header returns the name of the header in which proxies name the client, in the canonical
// form of [net/textproto.CanonicalMIMEHeaderKey].
func (id *Identity) Header() string { return id.header }

// OnUnnamed returns what to do if [Identity.Client] returns [ClientUnnamed].
func (id *Identity) OnUnnamed() UnnamedAction { return id.unnamed }

// Trusted reports whether the peer is a trusted proxy.
func (id *Identity) Trusted(peer netip.Addr) bool { return id.trusts(unmapped(peer)) }

func (id *Identity) trusts(plainPeer netip.Addr) bool {
	return id.trusted != nil && id.trusted.Contains(plainPeer)
}

// ClientSource says how the client of a request is known.
type ClientSource uint8

// The sources of an address that [Identity.Client] returns.
const (
	// ClientNoAddress: the peer has no address that tells clients apart, for example on
	// a Unix socket. Refuse the request: all such peers would share one key.
	ClientNoAddress ClientSource = iota
	// ClientFromPeer: the peer is not a trusted proxy, so it is the client.
	ClientFromPeer
	// ClientFromHeader: a trusted proxy named the client.
	ClientFromHeader
	// ClientUnnamed: a trusted proxy named no client, or something that is not an
	// address. The address is that of the proxy, which all its clients share; see
	// [UnnamedAction] for what can be done.
	ClientUnnamed
)

// String returns the source in words.
func (c ClientSource) String() string {
	return nameOf(c, "no address", "from peer", "from header", "unnamed")
}

// Client returns the client of a request that came from peer, unmapped and without zone,
// and how it is known. values are all instances of the header [Identity.Header], in order;
// they are ignored unless the peer is trusted. At most 32 elements and 4 KiB are read, from
// the right. It does not allocate for elements that are addresses. A header that should
// name one address, such as X-Real-IP, names no client if it has several.
func (id *Identity) Client(peer netip.Addr, values [][]byte) (client netip.Addr, from ClientSource) {
	peer = unmapped(peer)
	switch {
	case !identifies(peer):
		return netip.Addr{}, ClientNoAddress
	case !id.trusts(peer):
		return plain(peer), ClientFromPeer
	}
	client, named := id.walk(peer, values)
	if !named {
		return plain(client), ClientUnnamed
	}
	return plain(client), ClientFromHeader
}

// ClientString is [Identity.Client] for values as net/http and gRPC have them.
// It does not allocate for up to 8 values.
func (id *Identity) ClientString(peer netip.Addr, values []string) (client netip.Addr, from ClientSource) {
	var few [8][]byte
	raw := few[:0]
	for _, v := range values {
		raw = append(raw, unsafe.Slice(unsafe.StringData(v), len(v))) // only read
	}
	return id.Client(peer, raw)
}

// walk goes from a trusted peer to the client. named is false if it ends at a trusted proxy
// that wrote nothing, or that wrote something other than an address.
func (id *Identity) walk(peer netip.Addr, values [][]byte) (client netip.Addr, named bool) {
	if id.single && (len(values) != 1 || bytes.IndexByte(values[0], ',') >= 0) {
		return peer, false
	}
	hop := peer // the last known one
	w := newWalk(values, id.forwarded)
	for {
		element, more := w.next()
		if !more {
			// Every element is a trusted proxy, so the leftmost one sent the request. But
			// if a bound of the walk was reached, it is not known who sent it.
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

// plain returns the form of a client's address that lists and keys use: unmapped, without
// zone, and for a client behind a translator its IPv4 address.
func plain(addr netip.Addr) netip.Addr { return nat64.Client(unmapped(addr)) }

// unmapped returns the form of an address by which proxies are trusted. Addresses that a
// translator writes are not converted, so they are never trusted.
func unmapped(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// PeerAddr returns the address of a TCP peer in the form that keys use: unmapped and
// without its zone, which names an interface of this machine. It returns the invalid
// address for other kinds of peers, such as Unix sockets, which cannot be told apart.
func PeerAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(tcp.IP)
	return addr.Unmap()
}

// originalHeaders are the canonical names of the headers that describe the original
// request. "" means that the value of the request itself is used.
type originalHeaders struct{ method, target, host string }

var originalNames = [...]originalHeaders{
	OriginalXOriginal:  {method: "X-Original-Method", target: "X-Original-Uri"},
	OriginalXForwarded: {"X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"},
}
