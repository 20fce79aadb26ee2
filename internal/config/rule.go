package config

import (
	"reflect"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/policy"
)

// rate is a number of units per period. Package fastlimit has the notation and says
// which rates it can keep exactly.
func rate() value {
	return valueOf("rate", patternSchema("^[0-9]+/[0-9]*[smhd]$"), func(d *decoder, n *node) (fastlimit.Rate, bool) {
		s, ok := d.scalar(n, "a rate such as 100/s, 600/m, 5/h, 1/d or 300/15m")
		if !ok {
			return fastlimit.Rate{}, false
		}
		r, err := fastlimit.ParseRate(s.text)
		return r, d.valid(n, err)
	})
}

// algorithms are in the order of package fastlimit, with underscores where its names
// have spaces.
var algorithms = []string{"leaky_bucket", "token_bucket", "fixed_window", "sliding_window", "sliding_log"}

// periods is what those algorithms admit that have no burst.
var periods = map[string]string{
	"fixed_window":   "which admits what rate says in each period",
	"sliding_window": "which admits what rate says in any period",
	"sliding_log":    "which admits what rate says in any period",
}

// checkRule reports settings of a rule that have no meaning beside another one.
func checkRule(d *decoder, n *node) {
	written := func(field string) *node { return d.written(n.field + ".Limit." + field) }
	escalateAt := written("EscalateAt")
	if escalateAt != nil && d.textOf(written("Strict")) == "true" {
		d.fail(escalateAt, "has no meaning beside strict: true, which checks every request", "remove one of the two")
	}
	algorithm := d.textOf(written("Algorithm"))
	if burst := written("Burst"); burst != nil && periods[algorithm] != "" {
		d.fail(burst, "has no meaning beside algorithm: "+algorithm+", "+periods[algorithm], "remove one of the two")
	}
	if on := d.written(n.field + ".OnBadCost"); on != nil && d.places[n.field+".CostFrom"] == nil {
		d.fail(on, "has no meaning without cost_from, which names the header with the cost", "remove it, or add cost_from: {header: X-Cost}")
	}
	if denied := written("CountDenied"); d.textOf(denied) == "true" && (algorithm != "" || d.places[n.field+".Limit.Algorithm"] == nil) {
		d.checkCountDenied(denied, algorithm)
	}
}

// checkCountDenied reports a count_denied of true beside an algorithm that counts what it
// admits only. "" is the default, a bucket.
func (d *decoder) checkCountDenied(at *node, algorithm string) {
	const fix = "remove it, or choose fixed_window or sliding_window"
	switch {
	case algorithm == "fixed_window", algorithm == "sliding_window":
	case algorithm == "sliding_log":
		d.fail(at, "has no meaning beside algorithm: sliding_log, which keeps the times of what it admits", fix)
	default:
		d.fail(at, "has a meaning for windows only: a bucket does not count denied requests", fix)
	}
}

// written is where the file sets a field, nil if it does not or has a mistake there.
func (d *decoder) written(path string) *node {
	if at := d.places[path]; at != nil && !at.failed {
		return at
	}
	return nil
}

// textOf is what a scalar that was read says, variables expanded; "" of none.
func (d *decoder) textOf(n *node) string {
	if n == nil {
		return ""
	}
	text, _, _ := d.expand(n, n.text)
	return text
}

// The three kinds of pattern differ in their normal form: hosts are compared in lower
// case, as RFC 3986 §3.2.2 has them, paths and methods byte by byte.

func hostPatterns() value {
	return patterns("host, or list of them", "a host such as *.example.com", strings.ToLower, policy.CheckHostPattern)
}

func pathPatterns() value {
	return patterns("path, or list of them", "a path such as /api/*", asWritten, policy.CheckPathPattern)
}

func methods() value {
	return patterns("method, or list of them", "a method such as GET", asWritten, policy.CheckMethod)
}

// asWritten is the normal form of patterns that are compared byte by byte.
func asWritten(s string) string { return s }

// patterns are one or more patterns in the form that normal returns. One that no
// request can match is an error, as its rule would limit nothing.
func patterns(docs, want string, normal func(string) string, check func(string) error) value {
	return value{docs: docs, schema: oneOrMoreSchema(textSchema(), unbounded), read: func(d *decoder, n *node, to reflect.Value) bool {
		items, _ := d.oneOrMore(n, unbounded, "patterns")
		to.Set(reflect.ValueOf(distinct(d, items, "in the list", func(item *node) (pattern, shown string, ok bool) {
			s, ok := d.text(item, want)
			if !ok || !d.valid(item, check(s)) {
				return "", "", false
			}
			s = normal(s)
			return s, s, true
		})))
		return !n.failed
	}}
}

// valid reports the errors of a package at n, the value that it has checked, and
// whether there are none. It is for checks of one value, which know no field.
func (d *decoder) valid(n *node, err error) bool {
	for _, e := range field.All(err) {
		d.fail(n, e.Problem, e.Fix)
	}
	return err == nil
}
