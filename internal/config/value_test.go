package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// get parses top-level settings beside a rule and returns what pick sees.
func get(t *testing.T, text string, pick func(*Config) any) any {
	t.Helper()
	return pick(mustParse(t, text+"\n"+rule))
}

// firstRule parses the settings of a rule.
func firstRule(t *testing.T, settings string) policy.RuleSpec {
	t.Helper()
	return mustParse(t, "rules: [{name: a, rate: 100/s, "+settings+"}]").Policy.Rules[0]
}

func TestTopValues(t *testing.T) {
	t.Parallel()
	listeners := func(c *Config) any { return listenersOf(c) }
	admin := func(c *Config) any { return c.Server.Admin }
	memory := func(c *Config) any { return c.Limits.Memory }
	allow := func(c *Config) any { return fmt.Sprint(c.Policy.Allow) }
	header := func(c *Config) any { return c.Policy.ClientIPHeader }
	original := func(c *Config) any { return c.Policy.OriginalRequest }
	for _, tt := range []struct {
		text string
		pick func(*Config) any
		want any
	}{
		{"", listeners, "[{127.0.0.1:8080 429}]"},
		{"deny_status: 503", listeners, "[{127.0.0.1:8080 503}]"},
		{"listen: :80", listeners, "[{:80 429}]"},
		{"listen: '[::]:80'", listeners, "[{[::]:80 429}]"},
		{"listen: '[::ffff:192.0.2.1]:80'", listeners, "[{192.0.2.1:80 429}]"},
		{"listen: LOCALHOST:0", listeners, "[{localhost:0 429}]"},
		{"listen: [a.example:1, b.example:1]", listeners, "[{a.example:1 429} {b.example:1 429}]"},
		// deny_status holds for listeners in front of it too.
		{"listen: [{address: 'a:1', deny_status: 400}, 'a:2']\ndeny_status: 599", listeners, "[{a:1 400} {a:2 599}]"},
		{"listen: a:0\nadmin: a:0", admin, "a:0"},
		{"", admin, "127.0.0.1:8081"},
		{"", memory, int64(64 << 20)},
		{"memory: 1048576", memory, int64(1 << 20)},
		{"memory: 1024KiB", memory, int64(1 << 20)},
		{"memory: 2MB", memory, int64(2e6)},
		{"memory: '3 GiB'", memory, int64(3 << 30)},
		{"memory: 1TiB", memory, int64(1 << 40)},
		{"decide_api: true", func(c *Config) any { return c.Server.DecideAPI }, true},
		{"allow: []", allow, "[]"},
		{
			"allow: [10.0.0.0/8, 192.0.2.7, 2001:db8::/32, '::1', '::ffff:10.1.0.0/112', '::ffff:10.1.2.3', 0.0.0.0/0, '::/0']", allow,
			"[10.0.0.0/8 192.0.2.7/32 2001:db8::/32 ::1/128 10.1.0.0/16 10.1.2.3/32 0.0.0.0/0 ::/0]",
		},
		{"", header, "X-Forwarded-For"},
		{"client_ip_header: cf-connecting-ip", header, "Cf-Connecting-Ip"},
		{"original_request: none", original, policy.OriginalNone},
		{"original_request: x-original", original, policy.OriginalXOriginal},
		{"original_request: x-forwarded", original, policy.OriginalXForwarded},
	} {
		if got := get(t, tt.text, tt.pick); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.text, got, tt.want)
		}
	}
	c := mustParse(t, "trusted_proxies: [192.0.2.1]\ndeny: [198.51.100.0/24]\n"+rule)
	if got := c.Policy.TrustedProxies; len(got) != 1 || got[0] != netip.MustParsePrefix("192.0.2.1/32") {
		t.Errorf("trusted_proxies: %v", got)
	}
	if got := c.Policy.Deny; len(got) != 1 || got[0] != netip.MustParsePrefix("198.51.100.0/24") {
		t.Errorf("deny: %v", got)
	}
}

func TestRuleValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		settings string
		key      string
		v4, v6   int
	}{
		{"", "[ip]", 32, 64},
		{"key: ip", "[ip]", 32, 64},
		{"key: [ip]", "[ip]", 32, 64},
		{"key: ip/24/48", "[ip]", 24, 48},
		{"key: [path, ip/1/128]", "[path ip]", 1, 128},
		{"key: header:x-api-key", "[header:X-Api-Key]", 32, 64},
		{"key: cookie:SID", "[cookie:SID]", 32, 64},
		{
			"key: [ip, header:A, header:B, cookie:a, cookie:A, method, host, path]",
			"[ip header:A header:B cookie:a cookie:A method host path]", 32, 64,
		},
		{"key: global", "[global]", 32, 64},
		{"key: [global]", "[global]", 32, 64},
	} {
		r := firstRule(t, tt.settings)
		if got := fmt.Sprint(r.Key); got != tt.key || r.Limit.IPv4Prefix != tt.v4 || r.Limit.IPv6Prefix != tt.v6 {
			t.Errorf("%s: got %s /%d/%d", tt.settings, got, r.Limit.IPv4Prefix, r.Limit.IPv6Prefix)
		}
	}

	r := firstRule(t, "match: {host: WWW.Example.com, path: [/a, '*.php'], method: PURGE}")
	if want := (policy.Match{Hosts: []string{"www.example.com"}, Paths: []string{"/a", "*.php"}, Methods: []string{"PURGE"}}); !reflect.DeepEqual(r.Match, want) {
		t.Errorf("match: got %+v, want %+v", r.Match, want)
	}
	r = firstRule(t, "match: {header: {x-tier: ['Free*', gold], X-B: '*'}, not: {host: A.com, path: /x, method: [PUT], header: {cookie: 'a=1'}}}")
	if want := (policy.Match{
		Headers: []policy.HeaderMatch{{Name: "X-Tier", Values: []string{"Free*", "gold"}}, {Name: "X-B", Values: []string{"*"}}},
		Not: policy.Exemption{
			Hosts: []string{"a.com"}, Paths: []string{"/x"}, Methods: []string{"PUT"}, Headers: []policy.HeaderMatch{{Name: "Cookie", Values: []string{"a=1"}}},
		},
	}); !reflect.DeepEqual(r.Match, want) {
		t.Errorf("match: got %+v, want %+v", r.Match, want)
	}
	r = firstRule(t, "burst: 500, cost: 7, mode: shadow, escalate_at: .25, on_failure: local")
	if l := r.Limit; l.Burst != 500 || l.Cost != 7 || l.Mode != fastlimit.Shadow || *l.EscalateAt != 0.25 || l.Strict {
		t.Errorf("got %+v", l)
	}
	r = firstRule(t, "strict: true")
	if l := r.Limit; l.Burst != 0 || l.Cost != 0 || l.Mode != fastlimit.Enforce || l.EscalateAt != nil || !l.Strict {
		t.Errorf("got %+v", l)
	}
	for _, theta := range []string{"0", "1", "0.5", "1.0"} {
		if firstRule(t, "escalate_at: "+theta).Limit.EscalateAt == nil {
			t.Errorf("escalate_at: %s is not set", theta)
		}
	}
}

// TestOneMistake has values on the border of what is valid, and the words that
// the message must have.
func TestOneMistake(t *testing.T) {
	t.Parallel()
	top := func(s string) string { return s + "\n" + rule }
	inRule := func(s string) string { return "rules: [{name: a, rate: 100/s, " + s + "}]" }
	for _, tt := range []struct{ text, want string }{
		{top("listen: 127.0.0.1:65536"), `listen: port "65536"`},
		{top("listen: 127.0.0.1:080"), `listen: port "080"`},
		{top("listen: 127.0.0.1:+80"), `listen: port "+80"`},
		{top("listen: '127.0.0.1:'"), `listen: port ""`},
		{top("listen: 127.0.0:80"), `listen: "127.0.0" is neither`},
		{top("listen: -a.b:80"), `listen: "-a.b" is neither`},
		{top("listen: ''"), "listen: is empty"},
		{top("listen: []"), "listen: the list is empty"},
		{top("listen: ~"), "listen: has no value"},
		{top("listen: [{}]"), "listen[0].address: missing"},
		{top("listen: 127.0.0.1:1\nadmin: ':1'"), "admin: :1 is already used by the listener 127.0.0.1:1"},
		{top("admin: 127.0.0.1:8080"), "admin: 127.0.0.1:8080 is already used by the listener 127.0.0.1:8080"},
		{top("listen: [" + strings.Repeat("':0',", 65) + "]"), "listen: 65 addresses; want at most 64"},
		{top("deny_status: 399"), "deny_status: 399 is not"},
		{top("deny_status: 600"), "deny_status: 600 is not"},
		{top("deny_status: 0x1ad"), `deny_status: "0x1ad" is not a whole number`},
		{top("memory: 0"), "memory: 0 is out of range; want 1MiB to 1TiB"},
		{top("memory: 1MiBi"), `memory: "1MiBi" is not a size`},
		{top("memory: MiB"), `memory: "MiB" is not a size`},
		{top("memory: 1.5GiB"), `memory: "1.5GiB" is not a size`},
		{top("memory: -1"), `memory: "-1" is not a size`},
		{top("memory: 1025GiB"), "memory: 1025GiB is out of range; want 1MiB to 1TiB"},
		{top("memory: 9007199254740991TiB"), "is out of range"},
		{top("decide_api: 'true'"), `decide_api: "true" is neither`},
		{top("decide_api: True"), `decide_api: "True" is neither`},
		{top("allow: [10.0.0.0/8/8]"), `allow[0]: "10.0.0.0/8/8" is not a prefix`},
		{top("allow: [10.0.0.0/33]"), `allow[0]: "10.0.0.0/33" is not a prefix`},
		{top("allow: [2001:db8::1/32]"), "allow[0]: 2001:db8::1/32 has bits set beyond its length; write 2001:db8::/32"},
		{top("allow: ['::ffff:10.0.0.1/120']"), "allow[0]: ::ffff:10.0.0.1/120 has bits set beyond its length; write 10.0.0.0/24"},
		{top("allow: [[10.0.0.0/8]]"), "allow[0]: found a list"},
		{top("client_ip_header: 'A:'"), `client_ip_header: "A:" is not the name of a header`},
		{top("original_request: X-Original"), `original_request: "X-Original" is not a known value`},
		{top("\"a\\nb\": 1"), `"a\nb": unknown setting`},
		{top("1: 1"), "1: unknown setting"},
		{top("Memory: 1MiB"), "Memory: unknown setting; did you mean memory?"},
		{top("memroy: 1MiB"), "did you mean memory?"},
		{top("trusted_proxy: []"), "did you mean trusted_proxies?"},
		{inRule("burst: 0"), "burst: 0 is too small"},
		{inRule("burst: ''"), "burst: is empty"},
		{inRule("cost: 101"), "cost: cost 101 is above burst 100"},
		{inRule("burst: 5, cost: 6"), "cost: cost 6 is above burst 5"},
		{inRule("burst: 1_000"), `burst: "1_000" is not a whole number`},
		{inRule("burst: +5"), `burst: "+5" is not a whole number`},
		{inRule("escalate_at: -0.1"), "escalate_at: -0.1 is out of range; want 0 to 1"},
		{inRule("escalate_at: 1.01"), "escalate_at: 1.01 is out of range; want 0 to 1"},
		{inRule("escalate_at: .inf"), `escalate_at: ".inf" is not a decimal`},
		{inRule("escalate_at: '0.5'"), `escalate_at: "0.5" is not a decimal`},
		{inRule("escalate_at: 0x1p-2"), `escalate_at: "0x1p-2" is not a decimal`},
		{inRule("strict: true, escalate_at: 0"), "escalate_at: has no meaning with strict"},
		{inRule("key: [global, ip]"), "key[0]: global means one bucket"},
		{inRule("key: [header:a, header:A]"), `key[1]: "header:A" is a part already`},
		{inRule("key: cookie:"), "key: key part with the name"},
		{inRule("key: ip/24/129"), `key: "ip/24/129" is out of range`},
		{inRule("key: ip/-1/64"), `key: "ip/-1/64" is out of range`},
		{inRule("key: IP"), `key: "IP" is not a key; did you mean ip? want a key: ip,`},
		{inRule("key: hots"), `key: "hots" is not a key; did you mean host? want a key: ip,`},
		{inRule("key: heder:X-Api-Key"), `key: "heder:X-Api-Key" is not a key; did you mean header? want a key: ip,`},
		{inRule("key: user:name"), `key: "user:name" is not a key; want a key: ip,`},
		{inRule("algorithm: leakybucket"), `algorithm: "leakybucket" is not a known value; did you mean leaky_bucket? write leaky_bucket,`},
		{inRule("mode: shadwo"), `mode: "shadwo" is not a known value; did you mean shadow? write enforce`},
		{inRule("key: {ip: 24}"), "key: found a mapping"},
		{inRule("match: {}, match: {}"), "match: already set on line 1"},
		{inRule("match: {host: 5}"), "match.host: 5 is not text; write it in quotes"},
		{inRule("match: {path: []}"), "match.path: the list is empty"},
		{inRule("match: {method: get}"), `match.method: method "get"`},
		{inRule("name: b"), "name: already set on line 1"},
		{"rules: [{rate: 5/s}]", "rules[0].name: missing"},
		{"rules: [{name: a}]", "rules[0].rate: missing"},
		{"rules: [{name: ä, rate: 5/s}]", `rules[0].name: "ä" is not a name`},
		{"rules: [{name: " + strings.Repeat("x", 65) + ", rate: 5/s}]", "is not a name"},
		{"rules: [{name: a, rate: 0/s}]", `rules[0].rate: rate "0/s"`},
		{"rules: [{name: a, rate: 1/367d}]", "the period is longer than 366d"},
		{"rules: [{name: a, rate: 1/2d}]", "want at least 1 per day"},
		{"rules: [{name: a, rate: 100003/s}]", "cannot be kept exactly; write 100000/s"},
		{"rules: [{name: a, rate: 1000000000/s, burst: 18446744073709551615}]", "rules[0].burst: "},
	} {
		_, err := Parse("f.yaml", []byte(tt.text), noEnv)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got\n\t%v\nwant one error with\n\t%s", tt.text, err, tt.want)
		}
	}
}
