package config

import (
	"fmt"
	"net/textproto"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/goccy/go-yaml/ast"
)

const rulesExample = `write for example rules: [{name: per-ip, key: ip, rate: 100/s, burst: 200}]`

// top reads the file.
func (d *decoder) top(body ast.Node) {
	root := node{line: 1, column: 1, ast: body}
	if body == nil {
		d.missing(root, "rules", "the file is empty: "+rulesExample)
		return
	}
	var listen, admin, redis, cluster, rules, memory, top *node
	set := func(to **node) func(node) { return func(n node) { *to = &n } }
	p := &d.cfg.Policy
	ok := d.mapping(newNode("", body), "settings, such as rules:", []field{
		{"listen", set(&listen)},
		{"admin", set(&admin)},
		{"upstream", nil},
		{"deny_status", func(n node) { d.denyStatus(n, &d.cfg.DenyStatus) }},
		{"trusted_proxies", func(n node) { p.TrustedProxies = d.prefixes(n) }},
		{"client_ip_header", d.clientIPHeader},
		{"original_request", d.originalRequest},
		{"on_unnamed", d.onUnnamed},
		{"decide_api", func(n node) { d.cfg.DecideAPI, _ = d.boolean(n) }},
		{"memory", set(&memory)},
		{"connections", d.connections},
		{"drain", d.drain},
		{"top_talkers", set(&top)},
		{"redis", set(&redis)},
		{"cluster", set(&cluster)},
		{"allow", func(n node) { p.Allow = d.prefixes(n) }},
		{"deny", func(n node) { p.Deny = d.prefixes(n) }},
		{"rules", set(&rules)},
	})
	if !ok {
		return
	}
	d.listeners(listen) // after deny_status, wherever that is
	d.admin(admin, listen)
	if redis != nil { // before the rules, which must fit it
		d.redis(*redis)
	}
	if cluster != nil { // after the listeners, whose ports it must not take
		d.cluster(*cluster)
	}
	if rules == nil {
		d.missing(root, "rules", "nothing would be limited: "+rulesExample)
	} else {
		d.rules(*rules)
	}
	if memory != nil {
		d.memory(*memory, len(p.Rules))
	}
	d.topTalkers(top, cluster)
}

func (d *decoder) denyStatus(n node, to *int) {
	v, ok := d.whole(n, "429")
	if !ok {
		return
	}
	if v < 400 || v > 599 {
		d.fail(n, fmt.Sprintf("%d is not the status code of an error", v), "want 400 to 599, for example 429 or, for nginx auth_request, 403")
		return
	}
	*to = int(v)
}

func (d *decoder) clientIPHeader(n node) {
	const example = "a header such as X-Forwarded-For"
	name, ok := d.text(n, example)
	if !ok {
		return
	}
	if !isToken(name) {
		d.fail(n, quote(name)+" is not the name of a header", "want "+example)
		return
	}
	d.cfg.Policy.ClientIPHeader = textproto.CanonicalMIMEHeaderKey(name)
	d.cfg.headerGiven = true
}

func (d *decoder) originalRequest(n node) {
	i, ok := d.choice(n, "none", "x-original", "x-forwarded")
	if ok {
		d.cfg.Policy.OriginalRequest = [...]policy.OriginalRequest{
			policy.OriginalNone, policy.OriginalXOriginal, policy.OriginalXForwarded,
		}[i]
	}
}

// isToken reports whether s is a token of RFC 9110: a header, a method, the
// name of a cookie.
func isToken(s string) bool {
	for _, r := range s {
		if r >= 0x7f || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) {
			return false
		}
	}
	return s != ""
}
