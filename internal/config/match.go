package config

import (
	"fmt"
	"net/textproto"
	"reflect"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// The kinds of pattern differ in their normal form: hosts are compared in lower
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

// exempting are patterns over hosts or paths of which none may match everything.
func exempting(v value) value {
	all := v.read
	v.read = func(d *decoder, n *node, to reflect.Value) bool {
		if !all(d, n, to) {
			return false
		}
		items, _ := d.oneOrMore(n, unbounded, "patterns")
		for _, item := range items {
			text, _, _ := d.expand(item, item.text)
			d.valid(item, policy.CheckExemption(text))
		}
		return !n.failed
	}
	return v
}

// headerMatches is a mapping of names to patterns over their values.
func headerMatches() value {
	const want = `a mapping such as {X-Tier: "free*"}`
	element := headerPatterns()
	s := schema{"type": "object", "additionalProperties": element.schema, "minProperties": 1}
	return value{docs: "mapping of headers to a pattern, or list of them", schema: s, read: func(d *decoder, n *node, to reflect.Value) bool {
		switch {
		case n.kind != isMapping:
			d.mismatch(n, want)
			return false
		case len(n.members) == 0:
			d.fail(n, "the mapping is empty", "write "+want[len("a mapping such as "):]+", or remove the setting")
			return false
		}
		all := make([]policy.HeaderMatch, len(n.members))
		lines := map[string]int{}
		for i, m := range n.members {
			all[i].Name = d.headerName(n, m.key, lines)
			m.value.path = n.child(printable(m.key.text))
			element.read(d, m.value, reflect.ValueOf(&all[i].Values).Elem())
		}
		to.Set(reflect.ValueOf(all))
		return !n.failed
	}}
}

// headerName reads the name of a header in its canonical form. lines has where those of
// the same mapping were seen.
func (d *decoder) headerName(n, key *node, lines map[string]int) string {
	key.path = n.path
	if key.kind == isRefused {
		d.mismatch(key, "the name of a header")
		return ""
	}
	key.path = n.child(printable(key.text))
	name := textproto.CanonicalMIMEHeaderKey(key.text)
	if !d.valid(key, policy.CheckHeaderName(name)) {
		return name
	}
	if first := lines[name]; first != 0 {
		d.fail(key, fmt.Sprintf("already set on line %d", first), "remove one of the two")
	}
	lines[name] = key.line
	return name
}

func headerPatterns() value {
	return patterns("pattern, or list of them", `a pattern such as "free*", or "*" for any value`, asWritten, policy.CheckHeaderPattern)
}
