package config

import (
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// match reads which requests a rule applies to. Patterns that no request can
// match are errors: their rule would guard nothing.
func (d *decoder) match(n node) policy.Match {
	var m policy.Match
	d.mapping(n, `a mapping such as {path: "/api/*"}`, []setting{
		{"host", func(v node) {
			m.Hosts = d.patterns(v, "a host such as *.example.com", strings.ToLower, policy.CheckHostPattern)
		}},
		{"path", func(v node) { m.Paths = d.patterns(v, "a path such as /api/*", asIs, policy.CheckPathPattern) }},
		{"method", func(v node) { m.Methods = d.patterns(v, "a method such as GET", asIs, policy.CheckMethod) }},
	})
	return m
}

func asIs(s string) string { return s }

// patterns reads one or more patterns in their normal form.
func (d *decoder) patterns(n node, want string, normal func(string) string, check func(string) error) []string {
	var all []string
	seen := map[string]bool{}
	for _, item := range d.oneOrMore(n) {
		s, ok := d.text(item, want)
		if !ok {
			continue
		}
		if err := check(s); err != nil {
			d.failWith(item, err, "want "+want)
			continue
		}
		s = normal(s)
		if seen[s] {
			d.fail(item, quote(s)+" is in the list already", "remove it")
			continue
		}
		seen[s] = true
		all = append(all, s)
	}
	return all
}
