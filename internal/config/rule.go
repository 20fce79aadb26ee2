package config

import (
	"reflect"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/policy"
)

// rate is a number of units per period.
func rate() value {
	return valueOf("rate", patternSchema("^[0-9]+/[0-9]*[smhd]$"), func(d *decoder, n *node) (fastlimit.Rate, bool) {
		s, ok := d.scalar(n, "a rate such as 100/s, 600/m, 5/h, 1/d or 300/15m")
		if !ok {
			return fastlimit.Rate{}, false
		}
		r, err := fastlimit.ParseRate(s.text)
		d.at(n, err)
		return r, err == nil
	})
}

func hostPatterns() value {
	return patterns("host, or list of them", "a host such as *.example.com", strings.ToLower, policy.CheckHostPattern)
}

func pathPatterns() value {
	return patterns("path, or list of them", "a path such as /api/*", nil, policy.CheckPathPattern)
}

func methods() value {
	return patterns("method, or list of them", "a method such as GET", nil, policy.CheckMethod)
}

// patterns are one or more patterns in normal form; normal may be nil. One that no
// request can match is an error, as its rule would limit nothing.
func patterns(docs, want string, normal func(string) string, check func(string) error) value {
	return value{docs: docs, schema: oneOrMoreSchema(textSchema(), unbounded), read: func(d *decoder, n *node, to reflect.Value) bool {
		items, _ := d.oneOrMore(n, unbounded, "patterns")
		var all []string
		seen := map[string]bool{}
		for _, item := range items {
			s, ok := d.text(item, want)
			if !ok {
				continue
			}
			if err := check(s); err != nil {
				d.at(item, err)
				continue
			}
			if normal != nil {
				s = normal(s)
			}
			if seen[s] {
				d.fail(item, quote(s)+" is in the list already", "remove it")
				continue
			}
			seen[s] = true
			all = append(all, s)
		}
		to.Set(reflect.ValueOf(all))
		return !n.failed
	}}
}

// at reports the errors of a package at n, the value that was checked.
func (d *decoder) at(n *node, err error) {
	for _, e := range field.All(err) {
		d.fail(n, e.Problem, e.Fix)
	}
}
