package config

import (
	"fmt"
	"math"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/policy"
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
	var listen, admin, redis, cluster, rules, memory, heavy *node
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
		{"heavy_hitters", set(&heavy)},
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
	d.heavyHitters(heavy, cluster)
}

// heavyHitters reads how many clients are counted by name without a cluster,
// and checks that there is memory for them, and for those of a cluster.
func (d *decoder) heavyHitters(n, cluster *node) {
	switch {
	case n == nil && cluster == nil:
		return
	case n == nil:
		n = cluster
	case cluster != nil:
		d.fail(*n, "is that of a node without cluster", "write it in cluster")
		return
	default:
		d.bounded(*n, &d.cfg.HeavyHitters, "1024", 4, fastlimit.MaxHeavyHitters)
	}
	// Rules that are known to be good, so that an error is about the memory.
	c := d.cfg.tier()
	c.Rules = probes(len(d.cfg.Policy.Rules))
	if _, err := fastlimit.NewPlan(c); err != nil && len(d.errs) == 0 {
		d.failWith(*n, err, "lower heavy_hitters, or raise memory")
	}
}

// probes are good rules, at least one.
func probes(n int) []fastlimit.RuleConfig {
	all := make([]fastlimit.RuleConfig, max(n, 1))
	for i := range all {
		all[i] = probe
		all[i].Name = strconv.Itoa(i)
	}
	return all
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

// memory reads the size once the number of rules is known, as each needs some.
func (d *decoder) memory(n node, rules int) {
	s, ok := d.scalar(n, "a size such as 64MiB")
	if !ok {
		return
	}
	size, ok := parseSize(s.text)
	if !ok {
		d.fail(n, quote(s.text)+" is not a size", "write for example 64MiB, 512KiB, 1GiB, 64MB or a number of bytes")
		return
	}
	if size > maxMemory {
		d.fail(n, s.text+" is too large", "want at most 1TiB")
		return
	}
	c := fastlimit.Config{Memory: max(size, 1), Rules: probes(rules)} // 0 would mean the default
	if _, err := fastlimit.NewPlan(c); err != nil {
		d.failWith(n, err, "raise it")
		return
	}
	d.cfg.Memory = size
}

// maxMemory stands for a slip of the unit.
const maxMemory = 1 << 40

// parseSize reads bytes with a binary (KiB) or decimal (KB) unit.
func parseSize(s string) (int64, bool) {
	digits := strings.TrimRight(s, "BKMGTikbmgt ")
	unit, ok := map[string]float64{
		"": 1, "B": 1,
		"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[strings.TrimPrefix(s[len(digits):], " ")]
	n, err := strconv.ParseUint(digits, 10, 53)
	if !ok || err != nil {
		return 0, false
	}
	return int64(min(float64(n)*unit, math.MaxInt64/2)), true
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
