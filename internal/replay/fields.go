package replay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// needs are the fields of a request, other than the client, that the rules look at:
// methods, hosts, paths, headers and cookies, each once. Only these are kept of a line,
// in this order, so that its record stays small.
type needs []policy.KeyPart

// neededBy returns what the rules look at, in their conditions and in their keys.
func neededBy(rules []policy.RuleSpec) (n needs) {
	for i := range rules {
		for _, p := range rules[i].Reads() {
			if p.Kind != policy.KeyIP && p.Kind != policy.KeyGlobal && !slices.Contains(n, p) {
				n = append(n, p)
			}
		}
	}
	return n
}

// lacking returns warnings about rules that applied to no line because the log has
// no such field; seen says for each need whether any line had it, and empty that
// there was no line.
func (n needs) lacking(rules []policy.RuleSpec, seen []bool, empty bool) (warnings []string) {
	var needHost []string
	for i := range rules {
		r := &rules[i]
		var lacks []string
		host := false
		for _, p := range slices.Concat(r.Key, r.Match.Parts()) {
			host = host || p.Kind == policy.KeyHost
			at := slices.Index(n, p)
			if (p.Kind == policy.KeyHeader || p.Kind == policy.KeyCookie) && !seen[at] {
				lacks = append(lacks, p.String())
			}
		}
		if len(lacks) > 0 {
			warnings = append(warnings, fmt.Sprintf("rule %q does not apply: the log has no %s", r.Limit.Name, strings.Join(lacks, ", ")))
		}
		for _, p := range r.Match.Not.Parts() {
			if p.Kind == policy.KeyHeader && !seen[slices.Index(n, p)] {
				warnings = append(warnings, fmt.Sprintf("rule %q exempts nobody by its header: the log has no %v", r.Limit.Name, p))
			}
		}
		for _, from := range [...]struct{ header, does, who string }{
			{r.CostFrom.Header, "charges its own cost", "proxies"},
			{r.CostFrom.ResponseHeader, "charges its own cost", "answers"},
			{r.RateFrom.Header, "counts by its own rate", "proxies"},
		} {
			if from.header != "" {
				warnings = append(warnings, fmt.Sprintf("rule %q %s: logs do not contain what %s sent in %s", r.Limit.Name, from.does, from.who, from.header))
			}
		}
		if host {
			needHost = append(needHost, r.Limit.Name)
		}
	}
	if len(needHost) > 0 && !empty && !seen[slices.Index(n, policy.KeyPart{Kind: policy.KeyHost})] {
		warnings = append(warnings, "rules that need a host do not apply: no line contains one; vhost_combined and JSON logs do: "+strings.Join(needHost, ", "))
	}
	return warnings
}

// fields are the values of the needs in one request, nil for absent ones. They borrow
// from the line or the record that they were read from.
type fields struct {
	needs  needs
	values [][]byte // in the order of needs
}

// Header implements [policy.Fields].
func (f *fields) Header(name string) [][]byte { return f.find(policy.KeyHeader, name) }

// Cookie implements [policy.Fields].
func (f *fields) Cookie(name string) [][]byte { return f.find(policy.KeyCookie, name) }

// find returns at most one value, since logs have no more. Header names are
// case-insensitive, cookie names are not.
func (f *fields) find(kind policy.KeyKind, name string) [][]byte {
	for i, p := range f.needs {
		same := p.Name == name || kind == policy.KeyHeader && strings.EqualFold(p.Name, name)
		if p.Kind == kind && same && f.values[i] != nil {
			return f.values[i : i+1]
		}
	}
	return nil
}

// get is find for a single value.
func (f *fields) get(kind policy.KeyKind, name string) []byte {
	for _, v := range f.find(kind, name) {
		return v
	}
	return nil
}

// fill sets the fields from a line. A host or path without a canonical form stays nil, as a server would
// reject it.
func (f *fields) fill(l *logLine, e *policy.Engine, s *policy.Scratch) {
	var r policy.Request
	// The log names the client, so forwarding headers play no part.
	e.Assemble(&policy.Identity{}, &policy.Incoming{Peer: l.Client, Method: l.Method, Target: l.Target, Host: l.VHost}, s, &r)
	f.values = f.values[:0]
	for i, p := range f.needs {
		var v []byte
		switch {
		case p.Kind == policy.KeyMethod:
			v = r.Method
		case p.Kind == policy.KeyHost && len(r.Host) > 0:
			v = r.Host
		case p.Kind == policy.KeyPath:
			v = r.Path
		case l.Values != nil:
			v = l.Values[i]
		case p.Kind == policy.KeyHeader && strings.EqualFold(p.Name, "Referer"):
			v = l.Referer
		case p.Kind == policy.KeyHeader && strings.EqualFold(p.Name, "User-Agent"):
			v = l.UserAgent
		}
		f.values = append(f.values, v)
	}
}

// pack appends the values to dst, each preceded by its length plus one; 0 means that
// it is absent.
func (f *fields) pack(dst []byte) []byte {
	for _, v := range f.values {
		if v == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(v))+1)
		dst = append(dst, v...)
	}
	return dst
}

// unpack is the inverse of pack. The values borrow from b.
func (f *fields) unpack(b []byte) {
	f.values = f.values[:0]
	for range f.needs {
		var v []byte
		size, w := binary.Uvarint(b)
		if b = b[w:]; size > 0 {
			v, b = b[:size-1:size-1], b[size-1:]
		}
		f.values = append(f.values, v)
	}
}

// rebuilt is the request of a record. Its buffers are reused.
type rebuilt struct {
	request policy.Request
	fields  fields
	text    []byte // what they borrow
}

// from returns the request of a record, valid until the next call.
func (b *rebuilt) from(r *record) *policy.Request {
	// Copied, as the policy takes bytes: the text of a record is shared by others.
	b.text = append(b.text[:0], r.text...)
	b.fields.unpack(b.text)
	q := &b.request
	q.Client, q.Fields = r.client(), &b.fields
	q.Method, q.Host, q.Path = b.fields.get(policy.KeyMethod, ""), b.fields.get(policy.KeyHost, ""), b.fields.get(policy.KeyPath, "")
	return q
}
