package policy

import (
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
)

// RuleSpec is one rule of a policy: a limit, the requests it applies to, and how it tells
// clients apart.
type RuleSpec struct {
	Limit fastlimit.RuleConfig
	Match Match
	Key   []KeyPart // at least one; composite if more than one

	Overrides []Override // other limits for some clients; no two with the same key

	CostFrom  CostSource // zero: every request costs Limit.Cost
	OnBadCost BadCost    // what to do if CostFrom names no usable cost

	RateFrom RateSource // zero: every client without an override has Limit.Rate

	Prefixes Prefixes // zero: only clients are limited, not the prefixes that they are in

	// Set by Settings.Expanded: see Origin.
	origin   int // 1 + the index of the rule
	families families
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

// String returns the name of the kind in a configuration file.
func (k KeyKind) String() string {
	return nameOf(k, "ip", "header", "cookie", "method", "host", "path", "global")
}

// KeyPart is one part of a key. The prefix lengths of a KeyIP part are those
// of the limit's IPv4Prefix and IPv6Prefix.
type KeyPart struct {
	Kind KeyKind
	Name string // of the header or cookie
}

// named reports whether the part is a header or a cookie, which have a name.
func (p KeyPart) named() bool { return p.Kind == KeyHeader || p.Kind == KeyCookie }

// String returns the part as in a configuration file, without prefix lengths.
func (p KeyPart) String() string {
	if p.named() {
		return p.Kind.String() + ":" + p.Name
	}
	return p.Kind.String()
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

// String returns the name of the family in a configuration file.
func (o OriginalRequest) String() string { return nameOf(o, "none", "x-original", "x-forwarded") }

// UnnamedAction says what to do with an unnamed request: one for which a trusted proxy
// names no client, or no original request although one is configured. The only known
// address is that of the proxy, which all its clients share.
type UnnamedAction uint8

// The choices of Settings.OnUnnamed.
const (
	UnnamedPeer UnnamedAction = iota // charge the proxy's address
	UnnamedSkip                      // leave out the rules with ip in their key
	UnnamedDeny                      // refuse the request
)

// String returns the name of the action in a configuration file.
func (a UnnamedAction) String() string { return nameOf(a, "peer", "skip", "deny") }

// Settings are everything that affects the decision on a request, as in a configuration
// file. [New] uses the rules and lists, [NewIdentity] the rest.
type Settings struct {
	Rules       []RuleSpec
	Allow, Deny []netip.Prefix // the longest prefix wins; equal means deny

	TrustedProxies  []netip.Prefix
	ClientIPHeader  string          // read from trusted proxies only; "" means X-Forwarded-For
	OriginalRequest OriginalRequest // likewise
	OnUnnamed       UnnamedAction   // what to do if a trusted proxy omits one of the two

	MaxOverrides int // of all rules together; 0 means DefaultMaxOverrides

	// ShowKeys are the headers and cookies whose values [KeyText] shows. Others are shown
	// as a hash, since they may be secrets. [ShowAllKeys] alone means all of them.
	ShowKeys []string
}

// ShowAllKeys is the element of [Settings].ShowKeys that means all.
const ShowAllKeys = "*"

// Limits returns the rules of the limiter that [New] needs, in the order of s.Rules,
// followed by those that Prefixes make ([Settings.Expanded]). It sets their KeyKind, by
// which nodes determine whether they count the same, their Tiers and MaxRate, and
// Thousandths where costs come with fractions.
func (s *Settings) Limits() []fastlimit.RuleConfig {
	expanded := s.Expanded()
	s = &expanded
	limits := make([]fastlimit.RuleConfig, len(s.Rules))
	for i := range s.Rules {
		limits[i] = s.Rules[i].Limit
		limits[i].KeyKind = s.Rules[i].keyKind()
		limits[i].Tiers, _ = s.Rules[i].Tiers()
		if s.Rules[i].CostFrom.Fractions && !limits[i].Thousandths {
			limits[i].Thousandths = true
			limits[i].Cost = inThousandths(max(1, limits[i].Cost))
		}
		if from := s.Rules[i].RateFrom; from.Header != "" {
			limits[i].MaxRate = from.Max
		}
	}
	return limits
}

// inThousandths converts units. The result is saturated above every burst.
func inThousandths(units uint64) uint64 {
	if units > math.MaxUint64/1000 {
		return math.MaxUint64
	}
	return 1000 * units
}

// keyKind returns a line that says what the rule counts and by which key. The order of
// patterns does not matter, that of key parts does.
func (r *RuleSpec) keyKind() string {
	var key []string
	for _, p := range r.Key {
		key = append(key, strconv.Quote(p.String()))
	}
	return strings.Join(append([]string{"key " + strings.Join(key, ",")}, r.Match.kind()...), " ")
}

// nameOf returns the name of an enum's value.
func nameOf[E ~uint8](value E, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return "unknown " + strconv.Itoa(int(value))
}
