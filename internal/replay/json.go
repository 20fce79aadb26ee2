package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
	"github.com/tidwall/gjson"
)

// Reasons for which a line of JSON is skipped.
var (
	errNotJSON    = errors.New("begins with { but is not JSON")
	errJSONTime   = errors.New("no readable time in the JSON; name its field with --fields time=NAME")
	errJSONClient = errors.New("no client address in the JSON; name its field with --fields client=NAME")
)

// FieldMap maps what a request needs to the path of its value in a line of JSON,
// with dots between nested names. Keys are time, client, method, target, host,
// request (method, target and version in one), header:NAME and cookie:NAME. A key
// that is missing has the paths that Caddy and fastlimit use.
type FieldMap map[string]string

// known are the paths in the access logs of Caddy and of fastlimit, of which the first that exists is used.
// Caddy has client_ip since about version 2.5, remote_addr is from 2.0; names without a dot are fastlimit's,
// except ts.
var known = map[string][]string{
	"time":   {"ts", "time"},
	"client": {"request.client_ip", "request.remote_ip", "request.remote_addr", "client"},
	"method": {"request.method", "method"},
	"target": {"request.uri", "path"},
	"host":   {"request.host", "host"},
}

// Check returns the first problem of the map, in the order of its keys, so that the
// same mistake always gives the same message.
func (m FieldMap) Check() error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		kind, field, named := strings.Cut(name, ":")
		_, ok := known[name]
		ok = ok || name == "request" || named && field != "" && (kind == "header" || kind == "cookie")
		if !ok {
			return fmt.Errorf("%q is not a field; want time, client, method, target, host, request, header:NAME or cookie:NAME", name)
		}
		if m[name] == "" {
			return fmt.Errorf("%q is empty; write for example %s=remote_addr", name, name)
		}
	}
	return nil
}

// paths returns the places to look for a field, escaped for gjson. A path with dots
// is first tried as nested names, then as one name that contains dots.
func (m FieldMap) paths(name string) []string {
	if given, ok := m[name]; ok {
		return []string{jsonPath(given), gjson.Escape(given)}
	}
	var all []string
	for _, p := range known[name] {
		all = append(all, jsonPath(p))
	}
	return all
}

// jsonPath escapes everything in a path but its dots, so that gjson's modifiers,
// queries and wildcards are plain characters.
func jsonPath(s string) string {
	parts := strings.Split(s, ".")
	for i := range parts {
		parts[i] = gjson.Escape(parts[i])
	}
	return strings.Join(parts, ".")
}

// jsonFields is a FieldMap compiled for what the rules need.
type jsonFields struct {
	paths  map[string][]string // by key of the FieldMap; no request if it has none
	values []jsonValue         // in the order of parser.Needs
}

// jsonValue is where a header or a cookie is found.
type jsonValue struct {
	paths  []string
	cookie string // the cookie's name if paths lead to a Cookie header; else ""
}

// compile resolves the paths once instead of for every line. Header names match in
// any case, cookie names only as they are.
func (m FieldMap) compile(n needs) *jsonFields {
	f := &jsonFields{paths: map[string][]string{}}
	for name := range known {
		f.paths[name] = m.paths(name)
	}
	if _, ok := m["request"]; ok {
		f.paths["request"] = m.paths("request")
	}
	for _, p := range n {
		v := jsonValue{}
		for given := range m {
			if given == p.String() || p.Kind == policy.KeyHeader && strings.EqualFold(given, p.String()) {
				v.paths = m.paths(given)
			}
		}
		switch {
		case v.paths != nil:
		case p.Kind == policy.KeyHeader:
			v.paths = []string{"request.headers." + gjson.Escape(p.Name) + ".0"}
		case p.Kind == policy.KeyCookie:
			v.paths, v.cookie = []string{"request.headers.Cookie.0"}, p.Name
		}
		f.values = append(f.values, v)
	}
	return f
}

// json reads one line of JSON. It is validated first, because gjson reads malformed
// JSON without an error and may return anything.
func (p *parser) json(b []byte) (logLine, error) {
	line := string(b)
	if !gjson.Valid(line) {
		return logLine{}, errNotJSON
	}
	if p.compiled == nil { // at the first line of JSON, as most logs have none
		p.compiled = p.Map.compile(p.Needs)
	}
	f := p.compiled
	var l logLine
	var ok bool
	if l.Time, ok = p.textTime(first(line, f.paths["time"])); !ok {
		return logLine{}, errJSONTime
	}
	if l.Client, ok = parsePeer(first(line, f.paths["client"])); !ok {
		return logLine{}, errJSONClient
	}
	l.request(value(first(line, f.paths["request"])))
	// Method and target override the request, if a map names all three.
	if method := value(first(line, f.paths["method"])); isMethod(method) {
		l.Method = method
	}
	if target := value(first(line, f.paths["target"])); target != nil {
		l.Target = target
	}
	l.VHost = value(first(line, f.paths["host"]))
	p.values = p.values[:0]
	for i := range f.values {
		v := value(first(line, f.values[i].paths))
		if name := f.values[i].cookie; name != "" {
			v = cookie(v, name)
		}
		p.values = append(p.values, v)
	}
	l.Values = p.values
	return l, nil
}

// first returns the text at the first path that exists and is not null.
func first(line string, paths []string) string {
	for _, path := range paths {
		if r := gjson.Get(line, path); r.Exists() && r.Type != gjson.Null {
			if r.Type == gjson.Number {
				return r.Raw // as it was written
			}
			return r.String()
		}
	}
	return ""
}

// value returns nil for the placeholders of absent values, and for the one that Caddy
// logs instead of secrets.
func value(s string) []byte {
	if s == "" || s == "-" || s == "REDACTED" {
		return nil
	}
	return []byte(s)
}

// cookie returns the first cookie of that name in a Cookie header, nil if there is
// none.
func cookie(header []byte, name string) []byte {
	for pair := range strings.SplitSeq(string(header), ";") {
		if n, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && n == name {
			return value(v)
		}
	}
	return nil
}
