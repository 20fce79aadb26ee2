package config

import (
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
)

func plan(t *testing.T, c *Config) *fastlimit.Plan {
	t.Helper()
	p, err := fastlimit.NewPlan(c.Limiter())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	inRule := func(s string) string { return "rules: [{name: a, " + s + "}]" }
	for _, tt := range []struct {
		text string
		want []string // words of each warning, in order
	}{
		{rule + "memory: 64MiB", []string{"note: rule a: escalate_at is 0, as burst 5 is below 10"}},
		{inRule("rate: 5/s, escalate_at: 0"), nil},
		{inRule("rate: 100/s"), nil},
		{inRule("rate: 100/s, strict: true"), []string{"note: rule a: strict checks every request"}},
		{inRule("rate: 10/d, burst: 10"), []string{
			"rule a: its memory is enough for ", "note: rule a: a full bucket takes 36h0m to drain, longer than the hour",
		}},
		{inRule("rate: 60/h, burst: 39"), []string{"note: rule a: the most that a client gets takes about an hour to drain"}},
		{inRule("rate: 100/s, algorithm: fixed_window"), nil},
		{inRule("rate: 5/m, algorithm: fixed_window"), []string{"note: rule a: escalate_at is 0, as the limit of 5 is below 10"}},
		{inRule("rate: 100000/h, algorithm: fixed_window"), []string{"note: rule a: a window of 1h0m is longer than first-seen clients are remembered"}},
		{inRule("rate: 100/s, algorithm: sliding_window"), nil},
		{inRule("rate: 100/24m, algorithm: sliding_window"), nil},
		{inRule("rate: 100/25m, algorithm: sliding_window"), []string{"note: rule a: a sliding window of 25m is longer than first-seen clients are remembered, for which a period may have 24 minutes at most"}},
		{inRule("rate: 50/m, algorithm: sliding_log"), nil},
		{inRule("rate: 50/59m, algorithm: sliding_log"), []string{"rule a: its memory is enough for "}},
		{inRule("rate: 50/2h, algorithm: sliding_log"), []string{
			"rule a: its memory is enough for ", "note: rule a: a sliding log of 2h0m is longer than first-seen clients are remembered, less than an hour",
		}},
		{inRule("rate: 5/m, algorithm: sliding_log"), []string{"note: rule a: escalate_at is 0, as the limit of 5 is below 10"}},
		{inRule("rate: 100/s, match: {header: {X-Tier: free}, not: {path: /healthz, method: GET}}"), nil},
		{inRule("rate: 100/s, match: {not: {header: {x-in: '*'}, path: '/:id', method: GTE}}"), []string{
			"rule a: match.not.header: any client can send X-In, and is then not limited", "rule a: match.method: GTE is not a method", "rule a: match.path",
		}},
		{inRule("rate: 100/s, match: {not: {header: {X-In: '*'}}}") + "\ntrusted_proxies: [10.0.0.0/8]", nil},
		{inRule("rate: 100/s") + "\nadmin: :9000", []string{"admin: :9000 can be reached"}},
		{inRule("rate: 100/s") + "\nadmin: 0.0.0.0:9000", []string{"admin: 0.0.0.0:9000 can be reached"}},
		{inRule("rate: 100/s") + "\nadmin: 192.0.2.1:9000", []string{"admin: 192.0.2.1:9000 can be reached"}},
		{inRule("rate: 100/s") + "\nadmin: localhost:9000", nil},
		{inRule("rate: 100/s") + "\nadmin: '[::1]:9000'", nil},
		{inRule("rate: 100/s, cost_from: {header: X-L}, rate_from: {header: x-l, max: 9/s}"), []string{
			"rule a: cost_from: X-L is read from trusted proxies only", "rule a: rate_from: X-L is read from trusted proxies only",
			"rule a: rate_from.max: 9/s is below rate, 100/s", "rule a: cost_from, rate_from: no text in X-L can be both", "note: rule a: with rate_from every request is checked exactly",
		}},
		{inRule("rate: 100/s, max_wait: 1s") + "\nwait: {per_key: 9, total: 8}", []string{"wait.per_key: 9 is above total, 8"}},
		{inRule("rate: 100/s, max_wait: 1s") + "\nwait: {per_key: 8, total: 8}", nil},
		{inRule("rate: 100/s") + "\nclient_ip_header: X-Real-IP", []string{"client_ip_header: X-Real-Ip is read from trusted proxies only, and there are none"}},
		{inRule("rate: 100/s") + "\nclient_ip_header: X-Real-IP\ntrusted_proxies: [10.0.0.0/8]", nil},
		{inRule("rate: 100/s") + "\noriginal_request: x-original", []string{"original_request: its headers are read from trusted"}},
		{inRule("rate: 100/s") + "\ntrusted_proxies: [0.0.0.0/0, 10.0.0.0/8]", []string{"trusted_proxies: 0.0.0.0/0 trusts everybody"}},
		{inRule("rate: 100/s") + "\nallow: [10.0.0.0/8, 192.0.2.1]\ndeny: [10.0.0.0/9, 192.0.2.1/32]", []string{"allow, deny: 192.0.2.1/32 is in both lists: deny wins"}},
	} {
		c := mustParse(t, tt.text)
		got := remarksOf(t, c)
		ok := len(got) == len(tt.want)
		for i := range tt.want {
			ok = ok && strings.HasPrefix(got[i], tt.want[i])
		}
		if !ok {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

// remarksOf are the warnings and, behind "note: ", the notes.
func remarksOf(t *testing.T, c *Config) []string {
	t.Helper()
	p := plan(t, c)
	all := Warnings(c, p)
	for _, n := range Notes(c, p) {
		all = append(all, "note: "+n)
	}
	return all
}

// What switches the limiter off is warned of, with what to write.
func TestWarningsOfWhatSwitchesItOff(t *testing.T) {
	t.Parallel()
	match := func(s string) string { return "rules: [{name: a, rate: 100/s, match: {" + s + "}}]" }
	key := func(s string) string { return "rules: [{name: a, rate: 100/s, key: " + s + "}]" }
	for text, want := range map[string]string{
		"allow: [0.0.0.0/0]\n" + key("ip"):                            "allow: 0.0.0.0/0 covers every IPv4 client: no rule limits any of them; remove it",
		"allow: ['::/0']\n" + key("ip"):                               "allow: ::/0 covers every IPv6 client",
		"allow: [128.0.0.0/1]\n" + key("ip"):                          "allow: 128.0.0.0/1 is a large part of the IPv4 internet",
		"allow: [2.0.0.0/7]\n" + key("ip"):                            "allow: 2.0.0.0/7 is a large part of the IPv4 internet",
		"allow: ['fc00::/6']\n" + key("ip"):                           "allow: fc00::/6 is a large part of the IPv6 internet",
		"allow: ['2000::/3']\n" + key("ip"):                           "allow: 2000::/3 is a large part of the IPv6 internet",
		"allow: [10.0.0.0/8, 'fc00::/7', 192.0.2.0/24]\n" + key("ip"): "",
		"deny: [0.0.0.0/0]\n" + key("ip"):                             "",
		key("header:X-Forwarded-For"):                                 "rule a: key header:X-Forwarded-For: a client that sends a different value each time is never limited; write key: ip, with trusted_proxies and client_ip_header: X-Forwarded-For",
		key("[host, header:cf-connecting-ip]"):                        "rule a: key header:Cf-Connecting-Ip: a client",
		key("[ip, header:X-Api-Key]"):                                 "",
		match("method: GTE"):                                          "rule a: match.method: GTE is not a method that clients are known to send; did you mean GET?",
		match("method: FROBNICATE"):                                   "rule a: match.method: FROBNICATE is not a method that clients are known to send; write for example GET",
		match("method: [GET, PROPFIND, QUERY, PURGE]"):                "",
		match("path: '/users/:id'"):                                   `rule a: match.path: path pattern "/users/:id": :id matches only itself, as only * stands for any text; write "/users/*"`,
		match("path: '/api/.*'"):                                      `rule a: match.path: path pattern "/api/.*": patterns are not regular expressions, only * stands for any text; write "/api/*"`,
		match("path: [/api/*, '*.php', /login]"):                      "",
	} {
		c := mustParse(t, text)
		all := Warnings(c, plan(t, c))
		switch {
		case want == "" && len(all) > 0:
			t.Errorf("%s: warnings %q", text, all)
		case want != "" && (len(all) != 1 || !strings.HasPrefix(all[0], want)):
			t.Errorf("%s:\ngot  %q\nwant %q", text, all, want)
		}
	}
}

// Settings of a rule that can do nothing are warned of, and others like them are not.
func TestVainWarnings(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		`match: {path: /api/*, not: {path: [/x, /api/*]}}`:                  "match.not: its path covers everything that match selects, so the rule applies to no request",
		`match: {path: [/api/a*, /b], not: {path: [/api/*, "/b*"]}}`:        "match.not: its path covers",
		`match: {path: [/api/a*, /c], not: {path: [/api/*, "/b*"]}}`:        "",
		`match: {path: "/*/x", not: {path: /a/x}}`:                          "",
		`match: {not: {path: /api/*}}`:                                      "",
		`match: {host: A.example.com, not: {host: "*.example.com"}}`:        "match.not: its host covers",
		`match: {host: "*.example.com", not: {host: a.example.com}}`:        "",
		`match: {method: [GET, HEAD], not: {method: [HEAD, GET]}}`:          "match.not: its method covers",
		`match: {method: [GET, HEAD], not: {method: GET}}`:                  "",
		`match: {header: {X-Tier: "free*"}, not: {header: {x-tier: "*"}}}`:  "match.not: its header X-Tier covers",
		`match: {header: {X-Tier: "free*"}, not: {header: {x-tier: free}}}`: "",
		`rate: 1/m, burst: 10, max_wait: 1s`:                                "max_wait: 1s is far below the 1m after which a full bucket has room again",
		`rate: 1/m, burst: 10, max_wait: 6s`:                                "",
		`rate: 10/s, cost: 0.5, burst: 10, max_wait: 6ms`:                   "",
		`rate: 10/s, cost: 0.5, burst: 10, max_wait: 4ms`:                   "max_wait: 4ms is far below",
		`cost_from: {header: host}`:                                         "cost_from: Host is the name of a site, never a cost",
		`cost_from: {header: content-length}`:                               "cost_from: Content-Length comes from the client",
		`cost_from: {header: X-Cost}`:                                       "",
		`rate_from: {header: Host, max: 1000/s}`:                            "rate_from: Host is the name of a site, never a rate",
	} {
		if !strings.Contains(rule, "rate:") {
			rule = "rate: 100/s, " + rule
		}
		c := mustParse(t, "trusted_proxies: [192.0.2.1/32]\nrules: [{name: a, "+rule+"}]\n")
		found := ""
		for _, w := range Warnings(c, plan(t, c)) {
			if w = strings.TrimPrefix(w, "rule a: "); strings.HasPrefix(w, "match.not: its") || strings.Contains(w, "far below") || strings.Contains(w, "_from: ") {
				found += w
			}
		}
		if want == "" && found != "" || !strings.HasPrefix(found, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", rule, found, want)
		}
	}
}
