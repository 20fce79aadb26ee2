package config

import (
	"maps"
	"net/textproto"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit/internal/spelling"
	"github.com/fastlimit/fastlimit/policy"
)

// Prefix lengths of the key ip without any: an IPv4 client is one address, an IPv6
// client a /64, the least that a subscriber gets.
const (
	defaultPrefix4 = 32
	defaultPrefix6 = 64
)

const maxKeyParts = 8 // bounds the work of making a key for a request

// keyWant lists all forms: a key that is not known is usually one of another product.
const keyWant = "a key: ip, ip/24/48, header:X-Api-Key, cookie:sid, method, host, path, global, or a list of them"

// ruleKey is the key of a rule. ip/24/48 sets fields of the rule's limit too, which
// is why it reads into the whole struct.
func ruleKey() value {
	element := patternSchema(`^(ip(/[0-9]+/[0-9]+)?|method|host|path|global|(header|cookie):.+)$`)
	return value{
		docs: "key, or list of them", schema: oneOrMoreSchema(element, maxKeyParts), toStruct: true,
		read: func(d *decoder, n *node, to reflect.Value) bool {
			spec := to.Addr().Interface().(*policy.RuleSpec) // the struct of the section
			spec.Limit.IPv4Prefix, spec.Limit.IPv6Prefix = defaultPrefix4, defaultPrefix6
			d.keyParts(n, spec)
			return !n.failed
		},
	}
}

// keyParts collects the parts that can be read, so that a mistake in one does not hide
// those in others.
func (d *decoder) keyParts(n *node, spec *policy.RuleSpec) {
	items, _ := d.oneOrMore(n, maxKeyParts, "parts")
	spec.Key = distinct(d, items, "a part", func(item *node) (part policy.KeyPart, shown string, ok bool) {
		s, ok := d.scalar(item, keyWant)
		if !ok {
			return part, "", false
		}
		if part, ok = d.keyPart(item, s.text, spec); ok && part.Kind == policy.KeyGlobal && len(items) > 1 {
			d.fail(item, "global means one bucket for everybody", "write it alone, or remove it")
			ok = false
		}
		return part, s.text, ok
	})
}

var keyKinds = map[string]policy.KeyKind{
	"ip":     policy.KeyIP,
	"method": policy.KeyMethod,
	"host":   policy.KeyHost,
	"path":   policy.KeyPath,
	"global": policy.KeyGlobal,
}

// keyPart reads one part. Package policy knows which names of headers and cookies there
// are; this knows the notation only.
func (d *decoder) keyPart(n *node, s string, spec *policy.RuleSpec) (policy.KeyPart, bool) {
	if kind, ok := keyKinds[s]; ok {
		return policy.KeyPart{Kind: kind}, true
	}
	kind, name, named := strings.Cut(s, ":")
	part := policy.KeyPart{}
	switch {
	case strings.HasPrefix(s, "ip/"):
		return part, d.prefixLengths(n, s, spec)
	case named && kind == "header" && strings.EqualFold(name, "host"): // the parser keeps it apart from other headers
		d.fail(n, "the Host header has a key of its own", "write host")
		return part, false
	case named && kind == "header":
		part = policy.KeyPart{Kind: policy.KeyHeader, Name: textproto.CanonicalMIMEHeaderKey(name)}
	case named && kind == "cookie":
		part = policy.KeyPart{Kind: policy.KeyCookie, Name: name}
	default:
		d.fail(n, quote(s)+" is not a key", meantKey(s)+"want "+keyWant)
		return part, false
	}
	return part, d.valid(n, policy.CheckKeyPart(part))
}

// meantKey is [spelling.Question] of a part of a key, or of the kind of one with a name.
func meantKey(s string) string {
	if kind, _, named := strings.Cut(s, ":"); named {
		return spelling.Question(kind, []string{"header", "cookie"})
	}
	return spelling.Question(s, slices.Sorted(maps.Keys(keyKinds)))
}

// prefixLengths reads ip/24/48. Both lengths are required: one alone would be for IPv4,
// and leave IPv6 at a length that nobody has chosen.
func (d *decoder) prefixLengths(n *node, s string, spec *policy.RuleSpec) bool {
	f := strings.Split(s, "/")
	if len(f) != 3 {
		d.fail(n, quote(s)+" does not name two prefix lengths", "write the one for IPv4, then the one for IPv6: ip/24/48")
		return false
	}
	v4, err4 := strconv.ParseUint(f[1], 10, 8)
	v6, err6 := strconv.ParseUint(f[2], 10, 8)
	// 0 would read as "everybody", but RuleConfig takes it for the default.
	if err4 != nil || err6 != nil || v4 < 1 || v4 > 32 || v6 < 1 || v6 > 128 {
		d.fail(n, quote(s)+" is out of range", "want 1 to 32 for IPv4 and 1 to 128 for IPv6, for example ip/24/48")
		return false
	}
	spec.Limit.IPv4Prefix, spec.Limit.IPv6Prefix = int(v4), int(v6)
	return true
}

// clientHeaders carry the address of a client. A client that sends one itself gets
// a new bucket with each value, so a rule must not use them as a key.
var clientHeaders = strings.Fields(`X-Forwarded-For Forwarded X-Real-Ip X-Client-Ip True-Client-Ip X-Cluster-Client-Ip
	Cf-Connecting-Ip Cf-Connecting-Ipv6 Fastly-Client-Ip X-Original-Forwarded-For X-Forwarded X-Envoy-External-Address Via`)

// keyWarnings are about whom a rule counts.
func keyWarnings(spec *policy.RuleSpec, warn warnFunc) {
	for _, part := range spec.Key {
		if part.Kind == policy.KeyHeader && slices.Contains(clientHeaders, part.Name) {
			warn("key %v: a client that sends a different value each time is never limited; write key: ip, with trusted_proxies and client_ip_header: %s", part, part.Name)
		}
	}
}
