package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

var waitSettings = section{
	name: "wait", want: "settings, such as {per_key: 10, total: 10000}", where: "in wait, indented more than wait",
	settings: []setting{
		{name: "per_key", field: "PerKey", value: whole(number{least: 1, most: limit.MaxWaiters, example: "10"}), def: strconv.Itoa(limit.DefaultWaitersPerKey), doc: "the most requests that wait for one client of a rule"},
		{name: "total", field: "Total", value: whole(number{least: 1, most: limit.MaxWaiters, example: "10000"}), def: strconv.Itoa(limit.DefaultWaiters), doc: "the most requests that wait in total, counted once for each rule that they wait for; each takes up to 2 KiB and a connection"},
	},
}

// checkMaxWait reports a max_wait that makes nobody wait. Package fastlimit refuses it beside
// windows and logs, too, in words of its own.
func (d *decoder) checkMaxWait(at *node, algorithm, mode string) {
	switch {
	case periods[algorithm] != "":
		d.fail(at, "has no meaning with algorithm: "+algorithm+": all waiting requests would be admitted at once when it has room again", "remove it, or choose leaky_bucket")
	case mode == "shadow":
		d.fail(at, "has no effect in mode: shadow, which delays nobody", "remove it until the rule is enforced")
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
			warn("rule %s: max_wait: %s plus upstream.response_timeout, %s, is longer than proxies that are configured as in docs/recipes wait, %s; raise their timeouts above the sum, or lower one of the two",
				r.Name, shortTime(r.MaxWait), shortTime(u.ResponseTimeout), shortTime(forwardPatience))
		case u == nil && r.MaxWait >= proxyPatience:
			warn("rule %s: max_wait: %s is longer than proxies that are configured as in docs/recipes wait, %s, after which they admit the request or fail; raise their timeouts above max_wait, or lower max_wait",
				r.Name, shortTime(r.MaxWait), shortTime(proxyPatience))
		}
	}
	total, most := c.Limits.Wait.Total, c.Server.Connections.Max
	switch {
	case longest == 0 && c.given("Limits.Wait"):
		warn("wait: no rule has a max_wait, so nobody waits; remove it, or write max_wait in a rule")
	case longest > 0 && c.Limits.Wait.PerKey > total:
		warn("wait.per_key: %d is above total, %d: one client can fill the queue; lower it, or raise total", c.Limits.Wait.PerKey, total)
	case longest > 0 && total > most:
		warn("wait.total: %d is above connections.max, %d: each waiting request holds a connection, so fewer can wait; lower it, or raise connections.max", total, most)
	}
}

// WaitMemory is the most memory that requests take which wait for their places in line, in
// bytes, beside their connections: 0 if no rule lets any wait.
func (c *Config) WaitMemory() int64 {
	if c.anyRule(func(r *policy.RuleSpec) bool { return r.Limit.MaxWait > 0 }) {
		return int64(c.Limits.Wait.Total) * limit.WaiterBytes
	}
	return 0
}

// maxWaitWarning is about a max_wait that hardly any request can make use of.
func maxWaitWarning(spec *policy.RuleSpec, warn warnFunc) {
	// How long a full bucket takes to have room for one more request.
	limit := &spec.Limit
	cost := float64(max(1, limit.Cost))
	if limit.Thousandths {
		cost /= 1000
	}
	if next := time.Duration(cost / limit.Rate.PerSecond() * float64(time.Second)); limit.MaxWait > 0 && limit.MaxWait < next/10 && !limit.Algorithm.Periodic() {
		warn("max_wait: %s is far below the %s after which a full bucket has room again: hardly any request waits; raise it, or remove it", shortTime(limit.MaxWait), shortTime(next))
	}
}

func describeWait(b *strings.Builder, c *Config) {
	if w := c.Limits.Wait; c.WaitMemory() > 0 {
		fmt.Fprintf(b, "waiting: at most %d requests, %d for each client of a rule, %s on top of memory\n", w.Total, w.PerKey, size(c.WaitMemory()))
	}
}
