package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// RuleSpec is one rule of a policy: a limit, the requests it applies to and
// how it tells clients apart.
type RuleSpec struct {
	Limit fastlimit.RuleConfig
	Match Match
	Key   []KeyPart // one or more; composite if more
}

// Match selects requests. An empty list matches everything; all non-empty
// lists must match.
type Match struct {
	Hosts   []string // glob patterns over the lower-case host without port
	Paths   []string // glob patterns over the canonical path; * crosses slashes
	Methods []string // exact, upper case
}

// Kind is a line that says what the rule counts and by which key. Nodes exchange counts
// of a rule if they agree on it. The order of patterns does not matter, that of key
// parts does.
func (r *RuleSpec) Kind() string {
	var key []string
	for _, p := range r.Key {
		key = append(key, strconv.Quote(p.String()))
	}
	kind := []string{"key " + strings.Join(key, ",")}
	for _, m := range []struct {
		what string
		all  []string
	}{{"host", r.Match.Hosts}, {"path", r.Match.Paths}, {"method", r.Match.Methods}} {
		if len(m.all) == 0 {
			continue
		}
		all := make([]string, len(m.all))
		for i, s := range m.all {
			all[i] = strconv.Quote(s)
		}
		slices.Sort(all)
		kind = append(kind, m.what+" "+strings.Join(all, ","))
	}
	return strings.Join(kind, " ")
}

// KeyKind is what a part of a key is taken from.
type KeyKind uint8

// The kinds of key parts.
const (
	KeyIP KeyKind = iota
	KeyHeader
	KeyCookie
	KeyMethod
	KeyHost
	KeyPath
	KeyGlobal // one key for all requests
)

// KeyPart is one part of a key. The prefix lengths of a KeyIP part are those
// of the limit's IPv4Prefix and IPv6Prefix.
type KeyPart struct {
	Kind KeyKind
	Name string // of the header or cookie
}

// OriginalRequest says in which headers a trusted proxy describes the request that a
// decision is about.
type OriginalRequest uint8

// The supported header families.
const (
	OriginalNone       OriginalRequest = iota // the request itself
	OriginalXOriginal                         // X-Original-Method, X-Original-URI (nginx)
	OriginalXForwarded                        // X-Forwarded-Method, -Uri, -Host (Traefik, Caddy)
)

// Settings are everything that decides about a request, as in a configuration file.
type Settings struct {
	Rules       []RuleSpec
	Allow, Deny []netip.Prefix // the longest prefix wins; equal means deny

	TrustedProxies  []netip.Prefix
	ClientIPHeader  string          // read from trusted proxies only; "" means X-Forwarded-For
	OriginalRequest OriginalRequest // likewise
	OnUnnamed       OnUnnamed       // what to do if a trusted proxy omits one of the two
}

// String is the part as a configuration file names it, without prefix lengths.
func (p KeyPart) String() string {
	switch p.Kind {
	case KeyIP:
		return "ip"
	case KeyHeader:
		return "header:" + p.Name
	case KeyCookie:
		return "cookie:" + p.Name
	case KeyMethod:
		return "method"
	case KeyHost:
		return "host"
	case KeyPath:
		return "path"
	}
	return "global"
}
