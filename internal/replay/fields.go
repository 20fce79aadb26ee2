package replay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// fields are the fields of a request beside the client that rules look at.
type fields struct {
	method, host, path []byte   // path and host canonical
	values             [][]byte // of needs.names

	needs *needs
}

// Header implements [policy.Fields].
func (f *fields) Header(name string) [][]byte { return f.named("header:", name) }

// Cookie implements [policy.Fields].
func (f *fields) Cookie(name string) [][]byte { return f.named("cookie:", name) }

// named returns at most one value: logs have no more.
func (f *fields) named(kind, name string) [][]byte {
	for i, n := range f.needs.names {
		if rest, ok := strings.CutPrefix(n, kind); ok && (rest == name || kind == "header:" && strings.EqualFold(rest, name)) && f.values[i] != nil {
			return f.values[i : i+1]
		}
	}
	return nil
}

// needs tells which fields the rules look at: only those are kept.
type needs struct {
	method, host, path bool
	names              []string // headers and cookies, as "header:X-Api-Key"
}

// neededBy returns what the rules look at.
func neededBy(rules []policy.RuleSpec) *needs {
	n := &needs{}
	for i := range rules {
		r := &rules[i]
		n.host = n.host || len(r.Match.Hosts) > 0
		n.path = n.path || len(r.Match.Paths) > 0
		n.method = n.method || len(r.Match.Methods) > 0
		for _, p := range r.Key {
			switch p.Kind {
			case policy.KeyMethod:
				n.method = true
			case policy.KeyHost:
				n.host = true
			case policy.KeyPath:
				n.path = true
			case policy.KeyHeader, policy.KeyCookie:
				if !slices.Contains(n.names, p.String()) {
					n.names = append(n.names, p.String())
				}
			case policy.KeyIP, policy.KeyGlobal:
			}
		}
	}
	return n
}

// lacking are warnings of rules that no line could serve; seen tells for each
// of n.names whether a line had it.
func (n *needs) lacking(rules []policy.RuleSpec, seen []bool) (warnings []string) {
	for i := range rules {
		var lacks []string
		for _, p := range rules[i].Key {
			if at := slices.Index(n.names, p.String()); at >= 0 && !seen[at] {
				lacks = append(lacks, p.String())
			}
		}
		if len(lacks) > 0 {
			warnings = append(warnings, fmt.Sprintf("rule %q does not apply: the log has no %s", rules[i].Limit.Name, strings.Join(lacks, ", ")))
		}
	}
	return warnings
}

// needsHost names the rules that apply only to requests with a host.
func needsHost(rules []policy.RuleSpec) (names []string) {
	for i := range rules {
		r := &rules[i]
		host := len(r.Match.Hosts) > 0
		for _, p := range r.Key {
			host = host || p.Kind == policy.KeyHost
		}
		if host {
			names = append(names, r.Limit.Name)
		}
	}
	return names
}

// fill sets the fields from a line. What has no canonical form stays nil, as in
// a request that a server would refuse.
func (f *fields) fill(l *logLine, n *needs, e *policy.Engine, s *policy.Scratch) {
	*f = fields{needs: n, values: f.values[:0]}
	for i, name := range n.names {
		var v []byte
		switch {
		case l.Values != nil:
			v = l.Values[i]
		case strings.EqualFold(name, "header:Referer"):
			v = l.Referer
		case strings.EqualFold(name, "header:User-Agent"):
			v = l.UserAgent
		}
		f.values = append(f.values, v)
	}
	var r policy.Request
	// The log names the client itself: no proxy has to be trusted for it.
	e.Assemble(&policy.Identity{}, &policy.Incoming{Peer: l.Client, Method: l.Method, Target: l.Target, Host: l.VHost}, s, &r)
	if n.method {
		f.method = r.Method
	}
	if n.path {
		f.path = r.Path
	}
	if n.host && len(r.Host) > 0 {
		f.host = r.Host
	}
}

// pack appends the needed fields to dst, each behind its length plus one, 0
// where it is absent.
func (f *fields) pack(dst []byte, n *needs) []byte {
	add := func(v []byte) {
		if v == nil {
			dst = append(dst, 0)
			return
		}
		dst = binary.AppendUvarint(dst, uint64(len(v))+1)
		dst = append(dst, v...)
	}
	if n.method {
		add(f.method)
	}
	if n.host {
		add(f.host)
	}
	if n.path {
		add(f.path)
	}
	for _, v := range f.values {
		add(v)
	}
	return dst
}

// unpack is the inverse of pack. The fields borrow from b.
func (f *fields) unpack(b []byte, n *needs) {
	*f = fields{needs: n, values: f.values[:0]}
	take := func() (v []byte) {
		size, w := binary.Uvarint(b)
		if b = b[w:]; size > 0 {
			v, b = b[:size-1:size-1], b[size-1:]
		}
		return v
	}
	if n.method {
		f.method = take()
	}
	if n.host {
		f.host = take()
	}
	if n.path {
		f.path = take()
	}
	for range n.names {
		f.values = append(f.values, take())
	}
}
