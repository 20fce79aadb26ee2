package config

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/textproto"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/server"
)

// denyStatus is the status code of an error: proxies take 2xx for consent.
func denyStatus() value {
	return whole(number{
		least: 400, most: 599, example: "429",
		outside: "is not the status code of an error", why: ", for example 429 or, for nginx auth_request, 403",
	})
}

// originalRequest is a family of headers that name the request to decide on.
func originalRequest() value { return choice("none", "x-original", "x-forwarded") }

// listeners is an address, which is all that most files need, or a list. An element of
// the list is an address or a mapping, which may set more; a mapping outside of a list
// is not accepted.
func listeners() value {
	element := mapping(&listenSettings)
	one := socketAddress()
	v := oneOrMore("address, or list of addresses", maxListeners, "addresses", value{
		section: &listenSettings,
		read: func(d *decoder, n *node, to reflect.Value) bool {
			if n.kind == isMapping && strings.HasSuffix(n.path, "]") {
				return element.read(d, n, to)
			}
			return one.read(d, n, to.FieldByName("Address"))
		},
	})
	v.schema = schema{"anyOf": []schema{one.schema, {
		"type": "array", "items": schema{"anyOf": []schema{one.schema, element.schema}}, "minItems": 1, "maxItems": maxListeners,
	}}}
	return v
}

// checkAddresses fills in the status of listeners, and reports two that listen on
// one port of one host.
func (d *decoder) checkAddresses() {
	c := d.cfg
	for i := range c.Server.Listeners {
		l := &c.Server.Listeners[i]
		if l.DenyStatus == 0 {
			l.DenyStatus = c.DenyStatus // not before all is read: it may stand below listen
		}
		if other := listenerAt(c.Server.Listeners[:i], l.Address, d.machine.resolve); other != "" {
			d.fail(d.place(fmt.Sprintf("Server.Listeners[%d].Address", i)), l.Address+" is taken by the listener "+other, "remove one of the two")
		}
	}
	d.checkAdmin()
	// The cluster has UDP too, which traffic could not collide with, but its streams
	// need the TCP port of the same number.
	if b := d.places["Cluster.Bind"]; b != nil && !b.failed {
		other := listenerAt(c.Server.Listeners, c.Cluster.Bind, d.machine.resolve)
		switch {
		case other != "":
			other = "the listener " + other
		case overlap(c.Server.Admin, c.Cluster.Bind, d.machine.resolve):
			other = "admin"
		default:
			return
		}
		d.fail(b, c.Cluster.Bind+" is taken by "+other, "give the cluster a port of its own, for example 7946")
	}
}

// checkAdmin reports an admin listener that clients could reach as traffic. Where the
// file does not set admin, the mistake is in listen, and so is the place of the error.
func (d *decoder) checkAdmin() {
	n, listen := d.places["Server.Admin"], d.places["Server.Listeners"]
	other := listenerAt(d.cfg.Server.Listeners, d.cfg.Server.Admin, d.machine.resolve)
	switch {
	case other == "":
	case n != nil:
		d.fail(n, d.cfg.Server.Admin+" is taken by the listener "+other+", and admin must never be exposed with traffic", "give it a port of its own")
	default:
		d.fail(listen, other+" is the address of admin by default", "choose another port, or move admin with admin: 127.0.0.1:9090")
	}
}

// socketAddress is host:port or a Unix socket, in its normal form.
func socketAddress() value {
	return parsed("address", patternSchema("^unix:/.*[^/]$|:[0-9]{1,5}$"), addressWant, parseSocket)
}

func parseSocket(s scalar) (addr, problem, fix string) {
	path, unix := strings.CutPrefix(s.text, "unix:")
	if !unix {
		addr, problem = parseAddress(s.text)
		return addr, problem, "want " + addressWant
	}
	l := server.Listener{Address: s.text}
	for _, e := range field.All(l.Validate()) {
		if e.Field == "Address" {
			return "", e.Problem, e.Fix
		}
	}
	return "unix:" + filepath.Clean(path), "", "" // in which paths can be compared
}

// socketMode is the permissions of a Unix socket in octal, as chmod takes them. Without
// quotes it would be another number in YAML 1.1 than in 1.2.
func socketMode() value {
	return valueOf("permissions", patternSchema("^0?[0-7]{3}$"), func(d *decoder, n *node) (fs.FileMode, bool) {
		const want = `permissions in quotes, such as "0660"`
		s, ok := d.text(n, want)
		if !ok {
			return 0, false
		}
		mode, err := strconv.ParseUint(s, 8, 32)
		if err != nil || len(strings.TrimPrefix(s, "0")) > 3 || len(s) < 3 {
			d.fail(n, quote(s)+" is no mode of three octal digits", "want "+want)
			return 0, false
		}
		if mode == 0 { // to package server that is the default
			d.fail(n, quote(s)+" lets nobody connect", "want "+want)
			return 0, false
		}
		return fs.FileMode(mode), true
	})
}

const addressWant = "an address such as 127.0.0.1:8080"

// address is host:port in its normal form.
func address() value {
	return parsed("address", patternSchema(":[0-9]{1,5}$"), addressWant, func(s scalar) (addr, problem, fix string) {
		addr, problem = parseAddress(s.text)
		return addr, problem, "want " + addressWant
	})
}

// parseAddress checks host:port and returns its normal form, in which addresses can be
// compared as text: lower case, IPv4 not mapped, no leading zeros in the port.
func parseAddress(s string) (addr, problem string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", quote(s) + " is not host:port"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", "port " + quote(port) + " is not a number from 0 to 65535"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(ip.Unmap().String(), port), ""
	}
	if host != "" && !isHostname(host) {
		return "", quote(host) + " is neither an IP address nor a host name"
	}
	return net.JoinHostPort(strings.ToLower(host), port), ""
}

// hostname is labels of 1 to 63 characters, RFC 1123 §2.1, and underscores, which
// names inside of networks have. The last label has a letter: 10.0.0.300 is a
// mistyped address and no name.
var hostname = regexp.MustCompile(`^(?i)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_-]*[a-z][a-z0-9_-]*$`)

// isHostname checks form only. Whether there is such a host shows when it is bound.
func isHostname(s string) bool {
	last := s[strings.LastIndexByte(s, '.')+1:]
	return len(s) <= 253 && len(last) <= 63 && strings.Trim(last, "-") == last && hostname.MatchString(s)
}

// prefixes is a list of CIDR prefixes and plain addresses.
func prefixes() value {
	element := parsed("prefix", textSchema(), "a prefix such as 192.0.2.0/24", parsePrefix)
	return listOf("list of prefixes", "a list such as [192.0.2.0/24, 2001:db8::/32]", element)
}

// header is the name of a header in canonical form. Package policy checks that it
// is one.
func header() value {
	return valueOf("header", textSchema(), func(d *decoder, n *node) (string, bool) {
		s, ok := d.text(n, "a header such as X-Forwarded-For")
		return textproto.CanonicalMIMEHeaderKey(s), ok
	})
}

// parsePrefix reads a prefix or an address.
func parsePrefix(from scalar) (p netip.Prefix, problem, fix string) {
	return lists.ParsePrefix(from.text)
}
