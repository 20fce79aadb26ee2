package replay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// fields are the fields of a request, other than the client, that rules look at.
type fields struct {
	method, host, path []byte   // host and path in canonical form
	values             [][]byte // in the order of needs.names

	needs *needs
}

// Header implements [policy.Fields].
func (f *fields) Header(name string) [][]byte { return f.named("header:", name) }

// Cookie implements [policy.Fields].
func (f *fields) Cookie(name string) [][]byte { return f.named("cookie:", name) }

// named returns at most one value, since logs have no more. Header names are
// case-insensitive, cookie names are not.
func (f *fields) named(kind, name string) [][]byte {
	for i, n := range f.needs.names {
		if rest, ok := strings.CutPrefix(n, kind); ok && (rest == name || kind == "header:" && strings.EqualFold(rest, name)) && f.values[i] != nil {
			return f.values[i : i+1]
		}
	}
	return nil
}

// needs are the fields that the rules look at; only those are kept of a line.
type needs struct {
	method, host, path bool
	names              []string // headers and cookies, as "header:X-Api-Key"
}

// neededBy returns what the rules look at, in their conditions and in their keys.
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

// lacking returns warnings about rules that applied to no line because the log has
// no such field; seen says for each of n.names whether any line had it.
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

// needsHost returns the names of the rules that only apply to requests with a host.
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

// fill sets the fields from a line. A host or path without a canonical form stays
// nil, like one that a server would reject.
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
	// The log names the client itself, so forwarding headers play no part.
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

// each calls do for every needed field, in the order in which records hold them.
func (f *fields) each(n *needs, do func(v *[]byte)) {
	if n.method {
		do(&f.method)
	}
	if n.host {
		do(&f.host)
	}
	if n.path {
		do(&f.path)
	}
	for i := range f.values {
		do(&f.values[i])
	}
}

// pack appends the needed fields to dst, each preceded by its length plus one; 0
// means that it is absent.
func (f *fields) pack(dst []byte, n *needs) []byte {
	f.each(n, func(v *[]byte) {
		if *v == nil {
			dst = append(dst, 0)
			return
		}
		dst = binary.AppendUvarint(dst, uint64(len(*v))+1)
		dst = append(dst, *v...)
	})
	return dst
}

// unpack is the inverse of pack. The fields borrow from b.
func (f *fields) unpack(b []byte, n *needs) {
	*f = fields{needs: n, values: slices.Grow(f.values[:0], len(n.names))[:len(n.names)]}
	f.each(n, func(v *[]byte) {
		size, w := binary.Uvarint(b)
		b, *v = b[w:], nil // nil also clears what values held of the last record
		if size > 0 {
			*v, b = b[:size-1:size-1], b[size-1:]
		}
	})
}
