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
	"github.com/fastlimit/fastlimit/server"
)

// lowRate is in requests per second. A rule whose memory carries less traffic is
// warned of, as any flood exceeds it.
const lowRate = 1000

// A warning names the setting, what follows from it and what to write. It must not
// appear for a file that is right, or people stop reading them: the example has none
// (TestExampleFile).

// Warnings reports settings that are valid but probably a mistake, one line each,
// without a newline. p is the plan of c.Limiter().
func Warnings(c *Config, p *fastlimit.Plan) []string {
	warnings, _ := remarks(c, p)
	return warnings
}

// Notes reports what follows from settings that are hardly a mistake, as [Warnings] does. Nothing
// has to be done about it.
func Notes(c *Config, p *fastlimit.Plan) []string {
	_, notes := remarks(c, p)
	return notes
}

// remarks returns warnings and notes.
func remarks(c *Config, p *fastlimit.Plan) (all, notes []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, w := range c.fileWarnings {
		warn("%s", w)
	}
	networkWarnings(c, warn)
	listWarnings(c, warn)
	waitWarnings(c, warn)
	storeWarnings(c, warn)
	kernelWarnings(c, warn)
	warnShownKeys(c, warn)
	nodes := 0
	if c.Cluster != nil {
		nodes = c.Cluster.MaxNodes
	}
	for i := range p.Rules {
		spec := &c.Policy.Rules[i]
		ofRule := func(format string, args ...any) { warn("rule %s: %s", spec.Limit.Name, fmt.Sprintf(format, args...)) }
		if _, made := spec.Origin(); made { // what else there is to say of it is said of that one
			trafficWarning(&p.Rules[i], ofRule)
			continue
		}
		specWarnings(spec, len(c.Policy.TrustedProxies) > 0, ofRule)
		namedWarnings(spec, len(c.Policy.TrustedProxies) > 0, ofRule)
		vainWarnings(spec, ofRule)
		banWarnings(spec, ofRule)
		ruleWarnings(&p.Rules[i], nodes, ofRule)
		ruleNotes(&spec.Limit, &p.Rules[i], func(format string, args ...any) {
			notes = append(notes, fmt.Sprintf("rule %s: %s", spec.Limit.Name, fmt.Sprintf(format, args...)))
		})
	}
	return all, notes
}

// warnFunc adds a warning. Its arguments are those of fmt.Sprintf.
type warnFunc func(format string, args ...any)

// networkWarnings are about who can reach what, and who is believed.
func networkWarnings(c *Config, warn warnFunc) {
	if !adminIsLocal(c.Server.Admin) {
		warn("admin: %s can be reached from other machines; it serves metrics, profiles, the clients that are limited, and decisions about any, so keep it behind a firewall", c.Server.Admin)
	}
	if c.Server.AdminToken != "" && adminIsLocal(c.Server.Admin) {
		warn("admin.token_file: %s is on this machine, where changes need no token: any process that reaches it may make them; remove it (a Unix socket keeps the other users of the machine out)", c.Server.Admin)
	}
	for i := range c.Server.Listeners {
		listenerWarnings(&c.Server.Listeners[i], warn)
	}
	if len(c.Policy.TrustedProxies) == 0 {
		if c.headerGiven {
			warn("client_ip_header: %s is read from trusted proxies only, and there are none; set trusted_proxies", c.Policy.ClientIPHeader)
		}
		if c.Policy.OriginalRequest != 0 {
			warn("original_request: its headers are read from trusted proxies only, and there are none; set trusted_proxies")
		}
		for i := range c.Server.Listeners {
			if l := &c.Server.Listeners[i]; l.OriginalRequest != nil && *l.OriginalRequest != 0 {
				warn("original_request: that of %s is read from trusted proxies only, and there are none; set trusted_proxies", l.Address)
			}
		}
		if c.unnamedGiven {
			warn("on_unnamed: %v is about trusted proxies, and there are none; set trusted_proxies", c.Policy.OnUnnamed)
		}
	}
	original := c.Policy.OriginalRequest != 0
	for i := range c.Server.Listeners {
		l := &c.Server.Listeners[i]
		original = original || l.OriginalRequest != nil && *l.OriginalRequest != 0
	}
	if c.Server.Upstream != nil && original {
		warn("original_request: a proxy decides on the request that it passes on, so it has no effect beside upstream; remove it")
	}
	for _, t := range c.Policy.TrustedProxies {
		if t.Bits() == 0 {
			warn("trusted_proxies: %v trusts everybody: any client may choose the address it is counted by; name the addresses of your proxies", t)
		}
	}
}

// adminIsLocal reports whether only this machine reaches the admin listener.
func adminIsLocal(admin string) bool {
	host, _, err := net.SplitHostPort(admin)
	return err != nil || isLoopback(host) || strings.HasPrefix(admin, "unix:")
}

// listenerWarnings are about who can connect to a listener.
func listenerWarnings(l *server.Listener, warn warnFunc) {
	if l.Mode&0o002 != 0 {
		warn("listen: %s has mode %04o: every user of this machine may connect and, where 127.0.0.1 is a trusted proxy, name any client; write 0660 and use a group", l.Address, l.Mode)
	}
	for _, p := range l.ProxyProtocol {
		if p.Bits() == 0 {
			warn("proxy_protocol: %v believes everybody: any client may choose the address it is counted by; name the addresses of your balancers", p)
		}
	}
	here := func(p netip.Prefix) bool { return p.Contains(netip.AddrFrom4([4]byte{127, 0, 0, 1})) }
	if strings.HasPrefix(l.Address, "unix:") && len(l.ProxyProtocol) > 0 && !slices.ContainsFunc(l.ProxyProtocol, here) {
		warn("proxy_protocol: the peers of %s count as 127.0.0.1, which is in none of its prefixes, so their headers are refused; add 127.0.0.1", l.Address)
	}
}

// A shorter prefix on the allow list exempts more than any one network has:
// 10.0.0.0/8 and fc00::/7 are the widest private ranges.
const (
	widestPrivate4 = 8
	widestPrivate6 = 7
)

// storeWarnings are about settings that mean nothing, or much less, without a store.
func storeWarnings(c *Config, warn warnFunc) {
	if c.Store() != nil {
		return
	}
	for i := range c.Policy.Rules {
		if r := &c.Policy.Rules[i].Limit; r.OnFailure != fastlimit.FailLocal {
			warn("rule %s: on_failure: %v has no effect without redis", r.Name, r.OnFailure)
		}
	}
	if c.Cluster != nil {
		warn("cluster: without redis each node keeps the limits by itself: %d nodes admit up to %d times burst and rate; counts are exchanged for top talkers only",
			c.Cluster.MaxNodes, c.Cluster.MaxNodes)
	}
}

// How long the web servers of docs/recipes wait (TestProxyPatience): for a decision,
// without which they admit the request, and for the answer of a reverse proxy.
const proxyPatience, forwardPatience = 100 * time.Millisecond, time.Minute

// waitWarnings are about requests that wait, and who may not wait for them.
func waitWarnings(c *Config, warn warnFunc) {
	longest := time.Duration(0)
	for i := range c.Policy.Rules {
		r := &c.Policy.Rules[i].Limit
		longest = max(longest, r.MaxWait)
		switch proxied, u := len(c.Policy.TrustedProxies) > 0 || c.Policy.OriginalRequest != 0, c.Server.Upstream; {
		case !proxied, r.MaxWait == 0:
		case u != nil && r.MaxWait+u.ResponseTimeout >= forwardPatience:
			warn("rule %s: max_wait: %s, and upstream.response_timeout after it, %s, are longer than a proxy waits that is configured as docs/recipes have it, %s; raise its timeouts above their sum, or lower one of them",
				r.Name, shortTime(r.MaxWait), shortTime(u.ResponseTimeout), shortTime(forwardPatience))
		case u == nil && r.MaxWait >= proxyPatience:
			warn("rule %s: max_wait: %s is longer than a proxy waits that is configured as docs/recipes have it, %s, after which it admits the request or fails; raise its timeouts above max_wait, or lower max_wait",
				r.Name, shortTime(r.MaxWait), shortTime(proxyPatience))
		}
	}
	total, most := c.Limits.Wait.Total, c.Server.Connections.Max
	switch {
	case longest == 0 && c.waitGiven:
		warn("wait: no rule has a max_wait, so nobody waits; remove it, or write max_wait in a rule")
	case longest > 0 && c.Limits.Wait.PerKey > total:
		warn("wait.per_key: %d is above total, %d: one client can take all places; lower it, or raise total", c.Limits.Wait.PerKey, total)
	case longest > 0 && total > most:
		warn("wait.total: %d is above connections.max, %d: each request that waits has a connection, so fewer wait; lower it, or raise connections.max", total, most)
	}
}

// clientHeaders carry the address of a client. A client that sends one itself gets
// a new bucket with each value, so a rule must not use them as a key.
var clientHeaders = strings.Fields(`X-Forwarded-For Forwarded X-Real-Ip X-Client-Ip True-Client-Ip X-Cluster-Client-Ip
	Cf-Connecting-Ip Cf-Connecting-Ipv6 Fastly-Client-Ip X-Original-Forwarded-For X-Forwarded X-Envoy-External-Address Via`)

// specWarnings are about which requests a rule applies to, and whom it counts. proxied
// says that some proxy is trusted.
func specWarnings(spec *policy.RuleSpec, proxied bool, warn warnFunc) {
	for _, part := range spec.Key {
		if part.Kind == policy.KeyHeader && slices.Contains(clientHeaders, part.Name) {
			warn("key %v: any client can send another value each time, and so is never limited; write key: ip, with trusted_proxies and client_ip_header: %s", part, part.Name)
		}
	}
	for _, h := range spec.Match.Not.Headers {
		if !proxied {
			warn("match.not.header: any client can send %s, and is then not limited; put a proxy in front that removes it, and name it in trusted_proxies", h.Name)
		}
	}
	match := &spec.Match
	known := policy.KnownMethods()
	for _, m := range slices.Concat(match.Methods, match.Not.Methods) {
		if slices.Contains(known, m) {
			continue
		}
		fix := "write for example GET"
		if best := nearest(m, known, 2); best != "" {
			fix = "did you mean " + best + "?"
		}
		warn("match.method: %s is no method that clients are known to send; %s", m, fix)
	}
	for _, p := range slices.Concat(match.Paths, match.Not.Paths) {
		if hint := policy.PathHint(p); hint != "" {
			warn("match.path: %s", hint)
		}
	}
}

// namedWarnings are about costs and rates that proxies name.
func namedWarnings(spec *policy.RuleSpec, proxied bool, warn warnFunc) {
	cost, rate := spec.CostFrom.Header, spec.RateFrom.Header
	for _, from := range [...]struct{ setting, header string }{{"cost_from", cost}, {"rate_from", rate}} {
		if from.header != "" && !proxied {
			warn("%s: %s is read from trusted proxies only, and there are none; set trusted_proxies", from.setting, from.header)
		}
	}
	if most := spec.RateFrom.Max; rate != "" && most.PerSecond() < spec.Limit.Rate.PerSecond() {
		warn("rate_from.max: %v is below rate, %v: clients for whom a rate is named get less than the others; raise it, or lower rate", most, spec.Limit.Rate)
	}
	if rate != "" && cost == rate {
		warn("cost_from, rate_from: no text in %s is both a cost and a rate; name two headers", cost)
	}
}

// remembered is for how long a client is remembered from its first request on, by
// algorithm. Units of a sliding window count for two periods.
var remembered = map[fastlimit.Algorithm]string{
	fastlimit.FixedWindow:   "48 minutes at most",
	fastlimit.SlidingWindow: "for which a period may have 24 minutes at most",
	fastlimit.SlidingLog:    "less than an hour",
}

// period is the period of a rule that counts in periods, for people.
func period(rc *fastlimit.RuleConfig) string {
	name := "window"
	if rc.Algorithm != fastlimit.FixedWindow {
		name = rc.Algorithm.String()
	}
	return name + " of " + roughly(rc.Rate.Per)
}

// drain is the time in which a bucket drains that is as full as the sketch and the burst allow.
func drain(rc *fastlimit.RuleConfig) time.Duration {
	return time.Duration((1 + *rc.EscalateAt) * float64(rc.Burst) / rc.Rate.PerSecond() * float64(time.Second))
}

// ruleWarnings are about what the memory of a rule is good for.
func ruleWarnings(rp *fastlimit.RulePlan, nodes int, warn warnFunc) {
	trafficWarning(rp, warn)
	rc := &rp.Config
	if !rc.Strict && !rp.Filter && !rc.Algorithm.Periodic() && drain(rc) < time.Hour { // max_nodes alone has pushed it over the hour
		warn("in a cluster of %d nodes, each of which forgives a first-seen client, that takes longer than the hour that clients are remembered: every client is counted from its first request, which takes more memory under a flood; set cluster.max_nodes to the nodes there are",
			nodes)
	}
}

// ruleNotes are about what a rule costs. given is the rule as the file has it, rp as it was
// planned.
func ruleNotes(given *fastlimit.RuleConfig, rp *fastlimit.RulePlan, warn warnFunc) {
	rc := &rp.Config
	switch {
	case rc.Strict && rc.MaxRate != fastlimit.Rate{}:
		warn("rate_from has every request checked exactly: every client takes a bucket, and a flood of one-shot sources fills the table")
	case rc.Strict:
		warn("strict checks every request: every client takes a bucket, and a flood of one-shot sources fills the table")
	case !rp.Filter && rc.Algorithm.Periodic():
		warn("a %s is longer than first-seen clients are remembered, %s: every client is counted from its first request, which takes more memory under a flood",
			period(rc), remembered[rc.Algorithm])
	case !rp.Filter && drain(rc) >= time.Hour:
		warn("a full bucket takes %s to drain, over the hour that first-seen clients are remembered: every client is counted from its first request, which takes more memory under a flood",
			roughly(drain(rc)))
	}
	if given.EscalateAt == nil && !rc.Strict && *rc.EscalateAt == 0 {
		what := "burst"
		if rc.Algorithm.Periodic() {
			what = "the limit of"
		}
		warn("escalate_at is 0, as %s %d is below 10: every request but a first-seen one is checked exactly", what, rc.Burst)
	}
}

// trafficWarning is about memory that a usual flood exceeds.
func trafficWarning(rp *fastlimit.RulePlan, warn warnFunc) {
	if rp.RequestsPerSecond >= lowRate {
		return
	}
	fix := "or the rate"
	switch {
	case rp.Logged():
		fix = "lower the number in rate, or choose a sliding window"
	case rp.Config.Algorithm.Periodic():
		fix = "or shorten the period"
	}
	warn("its memory carries %s of distinct clients; beyond twice that buckets are lost and clients exceed %v: raise memory, %s",
		perSecond(rp.RequestsPerSecond), rp.Config.Rate, fix)
}

// isLoopback knows no other names than localhost: asking a name server for a warning
// would make validate slow where there is none.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
