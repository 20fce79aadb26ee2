package config

import (
	"net"
	"net/netip"
	"net/textproto"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/fastlimit/fastlimit/server"
)

// socketAddress is host:port, a Unix socket or one of the service manager, in its normal form.
func socketAddress() value {
	return parsed("address", patternSchema("^unix:/.*[^/]$|^systemd:[A-Za-z][A-Za-z0-9._-]{0,254}$|:[0-9]{1,5}$"), addressWant, parseSocket)
}

func parseSocket(s scalar) (addr, problem, fix string) {
	path, unix := strings.CutPrefix(s.text, "unix:")
	_, passed := systemd.Name(s.text)
	if !unix && !passed {
		return parseAddress(s)
	}
	l := server.Listener{Address: s.text}
	for _, e := range field.All(l.Validate()) {
		if e.Field == "Address" {
			return "", e.Problem, e.Fix
		}
	}
	if passed {
		return s.text, "", ""
	}
	return "unix:" + filepath.Clean(path), "", "" // in which paths can be compared
}

const addressWant = "an address such as 127.0.0.1:8080"

// address is host:port in its normal form.
func address() value {
	return parsed("address", patternSchema(":[0-9]{1,5}$"), addressWant, parseAddress)
}

// parseAddress checks host:port and returns its normal form, in which addresses can be
// compared as text: lower case, IPv4 not mapped, no leading zeros in the port.
func parseAddress(s scalar) (addr, problem, fix string) {
	const want = "want " + addressWant
	host, port, err := net.SplitHostPort(s.text)
	if err != nil {
		return "", quote(s.text) + " is not host:port", want
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", "port " + quote(port) + " is not a number from 0 to 65535", want
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(ip.Unmap().String(), port), "", ""
	}
	if host != "" && !isHostname(host) {
		return "", quote(host) + " is neither an IP address nor a host name", want
	}
	return net.JoinHostPort(strings.ToLower(host), port), "", ""
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
	return listOf("list of prefixes", "a list such as [192.0.2.0/24, 2001:db8::/32]", prefix())
}

// prefix is a CIDR prefix or an address.
func prefix() value {
	return parsed("prefix", textSchema(), "a prefix such as 192.0.2.0/24", func(s scalar) (netip.Prefix, string, string) { return lists.ParsePrefix(s.text) })
}

// header is the name of a header in canonical form. Package policy checks that it
// is one.
func header() value {
	return valueOf("header", textSchema(), func(d *decoder, n *node) (string, bool) {
		s, ok := d.text(n, "a header such as X-Forwarded-For")
		return textproto.CanonicalMIMEHeaderKey(s), ok
	})
}
