package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// lowRate is the traffic in requests per second below which a rule's share of
// memory is worth a warning: any flood is above.
const lowRate = 1000

// Warnings tells what is valid and probably not meant. p is the plan of
// c.Limiter(). One line each, without a newline.
func Warnings(c *Config, p *fastlimit.Plan) []string {
	all := slices.Concat(networkWarnings(c), listWarnings(c), storeWarnings(c))
	nodes := 0
	if c.Cluster != nil {
		nodes = c.Cluster.MaxNodes
	}
	for i := range p.Rules {
		spec := &c.Policy.Rules[i]
		all = append(all, specWarnings(spec)...)
		all = append(all, ruleWarnings(&spec.Limit, &p.Rules[i], nodes)...)
	}
	return all
}

func networkWarnings(c *Config) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if host, _, err := net.SplitHostPort(c.Admin); err == nil && !isLoopback(host) {
		warn("admin: %s can be reached from other machines; it serves metrics, profiles, the clients that are limited, and decisions about any, so keep it behind a firewall", c.Admin)
	}
	if len(c.Policy.TrustedProxies) == 0 {
		if c.headerGiven {
			warn("client_ip_header: %s is read from trusted proxies only, and there are none; set trusted_proxies", c.Policy.ClientIPHeader)
		}
		if c.Policy.OriginalRequest != 0 {
			warn("original_request: its headers are read from trusted proxies only, and there are none; set trusted_proxies")
		}
		if c.unnamedGiven {
			warn("on_unnamed: %v is about trusted proxies, and there are none; set trusted_proxies", c.Policy.OnUnnamed)
		}
	}
	for _, t := range c.Policy.TrustedProxies {
		if t.Bits() == 0 {
			warn("trusted_proxies: %v trusts everybody: any client may choose the address it is counted by; name the addresses of your proxies", t)
		}
	}
	return all
}

// A list entry with fewer bits holds more than any one network: 10.0.0.0/8 and
// fc00::/7 are the widest private ones.
const (
	narrow4 = 8
	narrow6 = 7
)

func listWarnings(c *Config) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	denied := map[netip.Prefix]bool{}
	for _, p := range c.Policy.Deny {
		denied[p] = true
	}
	for _, p := range c.Policy.Allow {
		family, narrow := "IPv4", narrow4
		if p.Addr().Is6() {
			family, narrow = "IPv6", narrow6
		}
		switch {
		case denied[p]:
			warn("allow, deny: %v is in both lists: deny wins", p)
		case p.Bits() == 0:
			warn("allow: %v is every %s client: no rule limits any of them; remove it", p, family)
		case p.Bits() < narrow:
			warn("allow: %v is a large part of the %s internet, which no rule limits; write a longer prefix", p, family)
		}
	}
	return all
}

func storeWarnings(c *Config) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i := range c.Policy.Rules {
		if r := &c.Policy.Rules[i].Limit; c.Redis == nil && r.OnFailure != fastlimit.FailLocal {
			warn("rule %s: on_failure: %v has no effect without redis", r.Name, r.OnFailure)
		}
	}
	if c.Cluster != nil && c.Redis == nil {
		warn("cluster: without redis each node keeps the limits by itself: %d nodes admit up to %d times burst and rate; counts are exchanged for top talkers only",
			c.Cluster.MaxNodes, c.Cluster.MaxNodes)
	}
	return all
}

// clientHeaders carry the address of a client. Whoever writes one chooses what
// a rule by it counts.
var clientHeaders = strings.Fields(`X-Forwarded-For Forwarded X-Real-Ip X-Client-Ip True-Client-Ip X-Cluster-Client-Ip
	Cf-Connecting-Ip Cf-Connecting-Ipv6 Fastly-Client-Ip X-Original-Forwarded-For X-Forwarded X-Envoy-External-Address Via`)

// specWarnings are about which requests a rule applies to, and whom it counts.
func specWarnings(spec *policy.RuleSpec) (all []string) {
	warn := func(format string, args ...any) {
		all = append(all, "rule "+spec.Limit.Name+": "+fmt.Sprintf(format, args...))
	}
	for _, part := range spec.Key {
		if part.Kind == policy.KeyHeader && slices.Contains(clientHeaders, part.Name) {
			warn("key %v: any client can send another value each time, and so is never limited; write key: ip, with trusted_proxies and client_ip_header: %s", part, part.Name)
		}
	}
	known := policy.KnownMethods()
	for _, m := range spec.Match.Methods {
		if !slices.Contains(known, m) {
			warn("match.method: %s is no method that clients are known to send; %s", m, nearest(m, known))
		}
	}
	for _, p := range spec.Match.Paths {
		if hint := policy.PathHint(p); hint != "" {
			warn("match.path: %s", hint)
		}
	}
	return all
}

// nearest suggests a method.
func nearest(m string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if n := distance(m, k); n < least {
			best, least = k, n
		}
	}
	if best == "" {
		return "write for example GET"
	}
	return "did you mean " + best + "?"
}

func ruleWarnings(given *fastlimit.RuleConfig, rp *fastlimit.RulePlan, nodes int) []string {
	var all []string
	warn := func(format string, args ...any) {
		all = append(all, "rule "+given.Name+": "+fmt.Sprintf(format, args...))
	}
	rc := &rp.Config
	if rp.RequestsPerSecond < lowRate {
		warn("its memory carries %s of distinct clients; beyond twice that buckets are lost and clients exceed %v: raise memory, or the rate",
			perSecond(rp.RequestsPerSecond), rc.Rate)
	}
	drain := time.Duration((1 + *rc.EscalateAt) * float64(rc.Burst) / rc.Rate.PerSecond() * float64(time.Second))
	switch {
	case rc.Strict:
		warn("strict checks every request: every client takes a bucket, and a flood of one-shot sources fills the table")
	case !rp.Filter && drain < time.Hour:
		warn("in a cluster of %d nodes, each of which forgives a first-seen client, that takes longer than the hour that clients are remembered: every client is counted from its first request, which takes more memory under a flood; set cluster.max_nodes to the nodes there are",
			nodes)
	case !rp.Filter:
		warn("a full bucket takes %s to drain, over the hour that first-seen clients are remembered: every client is counted from its first request, which takes more memory under a flood",
			roughly(drain))
	}
	if given.EscalateAt == nil && !rc.Strict && *rc.EscalateAt == 0 {
		warn("escalate_at is 0, as burst %d is below 10: every request but a first-seen one is checked exactly", rc.Burst)
	}
	return all
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
