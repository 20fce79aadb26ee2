package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/server"
)

// maxListeners bounds a list that is compared pair by pair.
const maxListeners = 64

// listeners reads an address, a list of addresses, or a list of {address,
// deny_status}. n is nil where the file names none.
func (d *decoder) listeners(n *node) {
	if n == nil {
		d.cfg.Listeners = []server.Listener{{Address: DefaultListen, DenyStatus: d.cfg.DenyStatus}}
		return
	}
	items := d.oneOrMore(*n)
	if len(items) > maxListeners {
		d.fail(*n, fmt.Sprintf("%d addresses", len(items)), fmt.Sprintf("want at most %d", maxListeners))
		return
	}
	for _, item := range items {
		l := server.Listener{DenyStatus: d.cfg.DenyStatus}
		at := item
		if item.isMapping() && item.path != n.path {
			at = d.listener(item, &l)
		} else {
			d.address(item, &l.Address)
		}
		if l.Address == "" { // reported
			continue
		}
		if other := taken(d.cfg.Listeners, l.Address, d.machine.resolve); other != "" {
			d.fail(at, l.Address+" is taken by the listener "+other, "remove one of the two")
		}
		d.cfg.Listeners = append(d.cfg.Listeners, l)
	}
}

// listener returns the place of the address.
func (d *decoder) listener(n node, l *server.Listener) node {
	at := n
	d.mapping(n, "an address", []setting{
		{"address", func(v node) { at = v; d.address(v, &l.Address) }},
		{"deny_status", func(v node) { d.denyStatus(v, &l.DenyStatus) }},
	})
	if at.path == n.path {
		d.missing(n, "address", `write for example {address: "127.0.0.1:8080", deny_status: 403}`)
	}
	return at
}

// admin reads the address of the admin listener, if there is one, and keeps it
// apart from traffic, which is at listen, if that is set.
func (d *decoder) admin(n, listen *node) {
	if n != nil && !d.address(*n, &d.cfg.Admin) {
		return
	}
	other := taken(d.cfg.Listeners, d.cfg.Admin, d.machine.resolve)
	switch {
	case other == "":
	case n != nil:
		d.fail(*n, d.cfg.Admin+" is taken by the listener "+other+", and admin must never be exposed with traffic", "give it a port of its own")
	default:
		d.fail(*listen, other+" is the address of admin by default", "choose another port, or move admin with admin: 127.0.0.1:9090")
	}
}

const addressWant = "an address such as 127.0.0.1:8080"

func (d *decoder) address(n node, to *string) bool {
	s, ok := d.scalar(n, addressWant)
	if !ok {
		return false
	}
	addr, problem := parseAddress(s.text)
	if problem != "" {
		d.fail(n, problem, "want "+addressWant)
		return false
	}
	*to = addr
	return true
}

// parseAddress checks host:port and returns its normal form.
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

// isHostname tells names from mistyped addresses: the last label of a name has
// a letter.
func isHostname(s string) bool {
	letter := false
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
		letter = false
		for _, r := range label {
			isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
			if !isLetter && r != '-' && r != '_' && (r < '0' || r > '9') {
				return false
			}
			letter = letter || isLetter
		}
	}
	return letter && len(s) <= 253
}

// prefixes reads a list of CIDR prefixes and plain addresses.
func (d *decoder) prefixes(n node) []netip.Prefix {
	var all []netip.Prefix
	for _, item := range d.items(n, "a list such as [192.0.2.0/24, 2001:db8::/32]") {
		s, ok := d.scalar(item, "a prefix such as 192.0.2.0/24")
		if !ok {
			continue
		}
		p, problem, fix := parsePrefix(s.text)
		if problem != "" {
			d.fail(item, problem, fix)
			continue
		}
		all = append(all, p)
	}
	return all
}

// parsePrefix reads a prefix or an address. IPv4-mapped IPv6 becomes IPv4, as
// clients do.
func parsePrefix(s string) (p netip.Prefix, problem, fix string) {
	const want = "write for example 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7"
	if !strings.Contains(s, "/") {
		ip, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return p, quote(s) + " is neither an address nor a prefix", want
		case ip.Zone() != "":
			return p, quote(s) + " has a zone", "write " + ip.WithZone("").String()
		}
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), "", ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, quote(s) + " is not a prefix", want
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, s + " is wider than the IPv4-mapped addresses", "write 0.0.0.0/0 for all of IPv4"
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return p, s + " has bits set beyond its length", "write " + p.Masked().String() + ", or " + p.Addr().String() + " for the one address"
	}
	return p, "", ""
}
