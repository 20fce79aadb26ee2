package config

import (
	"cmp"
	"fmt"
	"net/textproto"
	"reflect"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/internal/spelling"
	"github.com/fastlimit/fastlimit/policy"
)

var matchSettings = section{
	name: "match", want: `a mapping such as {path: "/api/*"}`, where: "in match, indented more than match",
	settings: []setting{
		{name: "host", field: "Hosts", value: hostPatterns(), shown: "all", doc: "hosts, without port"},
		{name: "path", field: "Paths", value: pathPatterns(), shown: "all", doc: "paths, decoded and without query"},
		{name: "method", field: "Methods", value: methods(), shown: "all", doc: "methods; `post` counts as `POST`"},
		{name: "ignore_case", field: "IgnoreCase", value: boolean(), def: "false", doc: "paths match in any case, and the key ignores case too"},
		{name: "header", field: "Headers", value: headerMatches(), shown: "all", doc: "headers and the values that they must have"},
		{name: "not", field: "Not", value: mapping(&notSettings), shown: "none", doc: "requests that the rule does not apply to"},
	},
}

var notSettings = section{
	name: "not", want: `a mapping such as {path: [/healthz, "/static/*"]}`, where: "in not, indented more than not", like: "match",
	settings: []setting{
		{name: "host", field: "Hosts", value: exempting(hostPatterns()), shown: "none", doc: "hosts, as in `match`"},
		{name: "path", field: "Paths", value: exempting(pathPatterns()), shown: "none", doc: "paths, as in `match`"},
		{name: "method", field: "Methods", value: methods(), shown: "none", doc: "methods, in exactly this case"},
		{name: "header", field: "Headers", value: headerMatches(), shown: "none", doc: "headers with values that exempt a request; if a request has several of one name, all must match"},
	},
}

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

// matchWarnings are about which requests a rule applies to. proxied says that some proxy is
// trusted.
func matchWarnings(spec *policy.RuleSpec, proxied bool, warn warnFunc) {
	for _, h := range spec.Match.Not.Headers {
		if !proxied {
			warn("match.not.header: any client can send %s, and is then not limited; put a proxy in front that removes it, and name it in trusted_proxies", h.Name)
		}
	}
	match := &spec.Match
	known := policy.KnownMethods()
	for _, m := range slices.Concat(match.Methods, match.Not.Methods) {
		if slices.Contains(known, m) {
			continue
		}
		fix := cmp.Or(strings.TrimSpace(spelling.Question(m, known)), "write for example GET")
		warn("match.method: %s is not a method that clients are known to send; %s", m, fix)
	}
	for _, p := range slices.Concat(match.Paths, match.Not.Paths) {
		if hint := policy.PathHint(p); hint != "" {
			warn("match.path: %s", hint)
		}
	}
}

// coverWarning is about a match that selects nothing.
func coverWarning(spec *policy.RuleSpec, warn warnFunc) {
	if what := spec.Match.Covered(); what != "" {
		warn("match.not: its %s covers everything that match selects, so the rule applies to no request; narrow it, or remove the rule", what)
	}
}
