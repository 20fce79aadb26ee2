package config

import (
	"strings"
	"testing"
)

// Settings of a rule that can do nothing are warned of, and others like them are not.
func TestVainWarnings(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		`match: {path: /api/*, not: {path: [/x, /api/*]}}`:                  "match.not: its path covers all that match selects: the rule applies to no request",
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
		`rate: 1/m, burst: 10, max_wait: 1s`:                                "max_wait: 1s is far below the 1m that the next place of a full bucket takes",
		`rate: 1/m, burst: 10, max_wait: 6s`:                                "",
		`rate: 10/s, cost: 0.5, burst: 10, max_wait: 6ms`:                   "",
		`rate: 10/s, cost: 0.5, burst: 10, max_wait: 4ms`:                   "max_wait: 4ms is far below",
		`cost_from: {header: host}`:                                         "cost_from: Host is the name of a site, and never a cost",
		`cost_from: {header: content-length}`:                               "cost_from: Content-Length is the client's own",
		`cost_from: {header: X-Cost}`:                                       "",
		`rate_from: {header: Host, max: 1000/s}`:                            "rate_from: Host is the name of a site, and never a rate",
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
