package proxy

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strconv"

	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/text"
)

var (
	// errLoop means that a request has come through this proxy before.
	errLoop = errors.New("the request has come through here before: the upstream forwards to this proxy")
	// errLookAlike means that a request has a field that the upstream may confuse with another one.
	errLookAlike = errors.New("the request has a header field whose name servers may take for another one")
)

// asked is a request to pass on, as it came.
type asked struct {
	http1.Request
	peer    netip.Addr
	trusted bool // the peer is a trusted proxy
	secure  bool // it came through TLS
	tunnel  bool // it asks for an upgrade that is passed on
}

// appendRequest appends the head that the upstream gets. It is rewritten from what was read, so that both
// readers agree where it ends.
func (p *Proxy) appendRequest(dst []byte, r *asked) ([]byte, error) {
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	target, authority := originForm(r.Target)
	dst = append(dst, target...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	name := r.Host
	if authority != nil {
		name = authority
	}
	dst = append(dst, name...)
	dst = append(dst, "\r\n"...)

	first, strip, behind := len(dst), false, p.behind.Load()
	named := forwarded{host: name, proto: []byte(r.scheme())}
	for lines := (http1.Lines{Rest: r.Fields}); ; {
		field, value, line, ok := lines.Next()
		if !ok {
			break
		}
		switch kindOf(field) {
		case endToEnd:
			is, exact := behind.isForwarding(field)
			switch {
			case is && !exact, !is && behind.guard.lookAlike(field):
				if behind.refuse {
					return dst, errLookAlike
				}
				continue
			case is && (!r.trusted || named.note(field, value)):
				continue
			}
			dst = append(dst, line...)
		case connection:
			strip = strip || namesOthers(value)
		case via:
			if bytes.Contains(value, p.id) {
				return dst, errLoop
			}
			dst = append(dst, line...)
		case expect:
			if r.Continue {
				dst = append(dst, line...)
			}
		case upgrade:
			if r.tunnel {
				dst = append(dst, line...)
			}
		}
	}
	if strip {
		dst = dropNamed(dst, first, r.Fields)
	}
	dst = r.appendForwarding(dst, name, &named)
	dst = append(dst, p.viaLine...)
	return r.appendEnd(dst), nil
}

// forwarded is what the client asked for, as a trusted peer says if it does. A Connection field must not
// remove these, so they are appended last.
type forwarded struct{ host, proto []byte }

// note takes a field of a trusted peer, if it is one that is appended later.
func (f *forwarded) note(name, value []byte) bool {
	switch {
	case text.IsName(name, "x-forwarded-proto"):
		f.proto = value
	case text.IsName(name, "x-forwarded-host"):
		f.host = value
	case text.IsName(name, "x-forwarded-for"), text.IsName(name, "forwarded"): // see appendJoined
	default:
		return false
	}
	return true
}

func (r *asked) scheme() string {
	if r.secure {
		return "https"
	}
	return "http"
}

// appendForwarding appends the fields that say who the client is.
func (r *asked) appendForwarding(dst, host []byte, f *forwarded) []byte {
	dst = r.appendJoined(append(dst, "X-Forwarded-For: "...), "x-forwarded-for")
	dst = r.peer.AppendTo(dst)
	dst = append(append(dst, "\r\nX-Forwarded-Proto: "...), f.proto...)
	if len(f.host) > 0 {
		dst = append(append(dst, "\r\nX-Forwarded-Host: "...), f.host...)
	}
	dst = r.appendJoined(append(dst, "\r\nForwarded: "...), "forwarded")
	if r.peer.Is4() {
		dst = r.peer.AppendTo(append(dst, "for="...))
	} else {
		dst = append(r.peer.AppendTo(append(dst, `for="[`...)), `]"`...)
	}
	if len(host) > 0 && bytes.IndexByte(host, '"') < 0 && bytes.IndexByte(host, '\\') < 0 {
		dst = append(append(append(dst, `;host="`...), host...), '"')
	}
	dst = append(append(dst, ";proto="...), r.scheme()...)
	return append(dst, "\r\n"...)
}

// appendJoined appends a trusted peer's values of a list.
func (r *asked) appendJoined(dst []byte, name string) []byte {
	if !r.trusted {
		return dst
	}
	for lines := (http1.Lines{Rest: r.Fields}); ; {
		field, value, _, ok := lines.Next()
		if !ok {
			return dst
		}
		if text.IsName(field, name) && len(value) > 0 {
			dst = append(append(dst, value...), ", "...)
		}
	}
}

// appendEnd appends the fields of this connection only, and the empty line.
func (r *asked) appendEnd(dst []byte) []byte {
	switch {
	case r.tunnel:
		dst = append(dst, "Connection: Upgrade\r\n"...)
	case r.Length == http1.Chunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case r.Length > 0, string(r.Method) == "POST", string(r.Method) == "PUT", string(r.Method) == "PATCH":
		dst = append(dst, "Content-Length: "...) // even if 0: some servers require it
		dst = strconv.AppendInt(dst, r.Length, 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// originForm returns the path of a target, and its authority if it has one, which takes precedence over Host
// (RFC 9112 §3.2.2).
func originForm(target []byte) (path, authority []byte) {
	if target[0] == '/' || target[0] == '*' {
		return target, nil
	}
	_, rest, _ := bytes.Cut(target, []byte("://"))
	end := bytes.IndexAny(rest, "/?")
	switch {
	case end < 0:
		return []byte("/"), rest
	case rest[end] == '?':
		return slices.Concat([]byte("/"), rest[end:]), rest[:end]
	}
	return rest[end:], rest[:end]
}

// dropNamed removes the lines from dst[first:] on that Connection fields name, except those that the other
// side cannot remove: where the message ends, and what it is upgraded to. The names are looked up, not
// compared one by one: a head of 32 KiB has room for thousands of both.
func dropNamed(dst []byte, first int, fields []byte) []byte {
	names := namedIn(fields)
	if len(names) == 0 {
		return dst
	}
	kept := first
	for lines := (http1.Lines{Rest: dst[first:]}); ; {
		name, _, line, ok := lines.Next()
		if !ok {
			return dst[:kept]
		}
		if k := kindOf(name); k != endToEnd && k != via || !names[string(bytes.ToLower(name))] {
			kept += copy(dst[kept:], line)
		}
	}
}

// namedIn returns the fields named in Connection fields, in lower case.
func namedIn(fields []byte) (names map[string]bool) {
	for lines := (http1.Lines{Rest: fields}); ; {
		field, value, _, ok := lines.Next()
		if !ok {
			return names
		}
		if kindOf(field) != connection {
			continue
		}
		if names == nil {
			names = make(map[string]bool)
		}
		for option := range options(value) {
			names[string(bytes.ToLower(option))] = true
		}
	}
}
