package policy

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"
)

// Identity tells who the client of a connection is. It is immutable and safe
// for concurrent use.
//
// The walk from the right is the rightmost-trusted algorithm of
// https://adam-p.ca/blog/2022/03/x-forwarded-for/.
type Identity struct {
	trusted   *bart.Lite // nil: nobody
	header    string
	forwarded bool // the header is Forwarded (RFC 7239)
	original  OriginalRequest
	unnamed   OnUnnamed
}

// NewIdentity compiles the settings about proxies. The error joins everything
// that is wrong.
func NewIdentity(s Settings) (*Identity, error) {
	id := &Identity{header: s.ClientIPHeader, original: s.OriginalRequest, unnamed: s.OnUnnamed}
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
	return id, nil
}

// Header is the name of the header that names the client.
func (id *Identity) Header() string { return id.header }

// Original is the header family that names the original request.
func (id *Identity) Original() OriginalRequest { return id.original }

// OnUnnamed is what to do with requests of trusted proxies that name no client
// or no original request.
func (id *Identity) OnUnnamed() OnUnnamed { return id.unnamed }

// Trusted reports whether the peer is a trusted proxy. Only then read the
// headers that [Identity.Header] and [OriginalRequest.Headers] name.
func (id *Identity) Trusted(peer netip.Addr) bool {
	return id.trusted != nil && id.trusted.Contains(plain(peer))
}

// Client returns the client of a request that came from peer, unmapped and
// without zone. values are all instances of the header, in order; they are
// ignored unless the peer is trusted. At most 32 elements and 4 KiB are read,
// from the right.
//
// named tells that the header named the client. It is false for a peer that is
// not trusted, which is the client itself, and where the walk ends at a trusted
// proxy that wrote nothing, or something that is no address. The client is then
// that proxy, an address that all its clients share; see [OnUnnamed].
//
// ok is false if the peer is no address that tells clients apart: close such a
// connection, as all of them would share one key. It does not allocate for
// elements that are addresses.
func (id *Identity) Client(peer netip.Addr, values [][]byte) (client netip.Addr, named, ok bool) {
	peer = plain(peer)
	if !identifies(peer) {
		return netip.Addr{}, false, false
	}
	if id.trusted == nil || !id.trusted.Contains(peer) {
		return peer, false, true
	}
	hop := peer // the last one known
	w := newWalk(values, id.forwarded)
	for {
		element, more := w.next()
		if !more {
			// All of them are trusted: the first one sent the request itself.
			return hop, named && w.atEnd(), true
		}
		addr, valid := id.address(element)
		if !valid {
			return hop, false, true
		}
		hop, named = addr, true
		if !id.trusted.Contains(hop) {
			return hop, true, true
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

// Headers returns the names of the headers that name the original request, ""
// where the request's own value counts.
func (o OriginalRequest) Headers() (method, uri, host string) {
	switch o {
	case OriginalXOriginal:
		return "X-Original-Method", "X-Original-URI", ""
	case OriginalXForwarded:
		return "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"
	}
	return "", "", ""
}
