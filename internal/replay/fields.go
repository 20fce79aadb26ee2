package replay

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/fastlimit/fastlimit/internal/policy"
)

// fields are the fields of a request beside the client that a log can have.
type fields struct {
	method, host, path, referer, agent []byte // path and host canonical
}

func (f *fields) all() [5]*[]byte {
	return [5]*[]byte{&f.method, &f.host, &f.path, &f.referer, &f.agent}
}

// Header implements [policy.Fields].
func (f *fields) Header(name string) (value []byte, ok bool) {
	switch {
	case strings.EqualFold(name, "Referer"):
		value = f.referer
	case strings.EqualFold(name, "User-Agent"):
		value = f.agent
	}
	return value, value != nil
}

// Cookie implements [policy.Fields]. Access logs have none.
func (f *fields) Cookie(string) (value []byte, ok bool) { return nil, false }

// needs tells which of the fields the rules look at: only those are kept.
type needs [5]bool

const (
	needMethod = iota
	needHost
	needPath
	needReferer
	needAgent
)

// neededBy returns what the rules look at, and warnings of those that no log
// can serve.
func neededBy(rules []policy.RuleSpec) (n needs, warnings []string) {
	for i := range rules {
		r := &rules[i]
		n[needHost] = n[needHost] || len(r.Match.Hosts) > 0
		n[needPath] = n[needPath] || len(r.Match.Paths) > 0
		n[needMethod] = n[needMethod] || len(r.Match.Methods) > 0
		var lacks []string
		for _, p := range r.Key {
			if field, ok := neededByKey(p); ok && field >= 0 {
				n[field] = true
			} else if !ok {
				lacks = append(lacks, p.String())
			}
		}
		if len(lacks) > 0 {
			warnings = append(warnings, fmt.Sprintf("rule %q does not apply: access logs have no %s", r.Limit.Name, strings.Join(lacks, ", ")))
		}
	}
	return n, warnings
}

// neededByKey returns the field of a part of a key, -1 if it takes none; ok is
// false if logs lack it.
func neededByKey(p policy.KeyPart) (field int, ok bool) {
	switch p.Kind {
	case policy.KeyIP, policy.KeyGlobal:
		return -1, true
	case policy.KeyMethod:
		return needMethod, true
	case policy.KeyHost:
		return needHost, true
	case policy.KeyPath:
		return needPath, true
	case policy.KeyHeader:
		switch {
		case strings.EqualFold(p.Name, "Referer"):
			return needReferer, true
		case strings.EqualFold(p.Name, "User-Agent"):
			return needAgent, true
		}
	}
	return -1, false
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

// fill sets the fields from a line. Path and host go to buf, which is
// returned for reuse. What has no canonical form stays nil, as in a request
// that a server would refuse.
func (f *fields) fill(l *Line, n *needs, buf []byte) []byte {
	*f = fields{method: l.Method, referer: l.Referer, agent: l.UserAgent}
	if n[needPath] && l.Target != nil {
		if b, ok := policy.AppendPath(buf, l.Target); ok {
			f.path, buf = b[len(buf):], b
		}
	}
	host := l.VHost
	if authority := policy.Authority(l.Target); authority != nil {
		host = authority
	}
	if n[needHost] && host != nil {
		if b, ok := policy.AppendHost(buf, host); ok {
			f.host, buf = b[len(buf):], b
		}
	}
	return buf
}

// pack appends the needed fields to dst, each behind its length plus one, 0
// where it is absent.
func (f *fields) pack(dst []byte, n *needs) []byte {
	for i, v := range f.all() {
		switch {
		case !n[i]:
		case *v == nil:
			dst = append(dst, 0)
		default:
			dst = binary.AppendUvarint(dst, uint64(len(*v))+1)
			dst = append(dst, *v...)
		}
	}
	return dst
}

// unpack is the inverse of pack. The fields borrow from b.
func (f *fields) unpack(b []byte, n *needs) {
	*f = fields{}
	for i, v := range f.all() {
		if !n[i] {
			continue
		}
		size, w := binary.Uvarint(b)
		if b = b[w:]; size > 0 {
			*v, b = b[:size-1:size-1], b[size-1:]
		}
	}
}
