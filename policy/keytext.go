package policy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/safetext"
)

// maxKeyText is how many bytes of a key part are shown.
const maxKeyText = 256

// KeyText returns the key of a request for a rule as people read it, one element per
// part: an address as its prefix if that covers more than the address, a part that the
// request lacks as "". The text is valid UTF-8 without control characters. Long parts
// are cut, so different keys can have the same text. It is nil for a rule of another
// policy.
func (e *Engine) KeyText(rule *fastlimit.Rule, r *Request) []string {
	k := e.keyOf(rule)
	if k == nil {
		return nil
	}
	texts := make([]string, len(k.parts))
	for i := range k.parts {
		p := &k.parts[i]
		switch addr := plain(r.Client); {
		case p.named():
			texts[i] = printable(first(e.fields[p.field].values(r.Fields)))
		case p.Kind != KeyIP:
			texts[i] = printable(e.part(k, p, r, nil)) // needs no scratch
		case identifies(addr):
			texts[i] = prefixText(k.prefix(addr))
		}
	}
	return texts
}

// keyOf returns how the keys of a rule are made, nil for a rule of another policy.
func (e *Engine) keyOf(limit *fastlimit.Rule) *keyMaker {
	if c := e.ruleOf(limit); c != nil {
		return &c.key
	}
	return nil
}

// ruleOf returns the compiled rule of a limit or of one of its tiers, nil for another
// policy's.
func (e *Engine) ruleOf(limit *fastlimit.Rule) *rule {
	if i := limit.Index(); i < len(e.rules) && e.rules[i].limit == limit.Base() {
		return &e.rules[i]
	}
	return nil
}

// KeyFromText is the inverse of [Engine.KeyText]: it returns the key that a request with
// these parts has, such as an address or its prefix, the value of a header, a canonical
// path. A host need not be canonical.
func (e *Engine) KeyFromText(rule *fastlimit.Rule, parts []string) (fastlimit.Key, error) {
	c := e.ruleOf(rule)
	if c == nil {
		return fastlimit.Key{}, fmt.Errorf("fastlimit/policy: rule %q is not one of this policy", rule.Name())
	}
	k := &c.key
	fail := func(format string, args ...any) (fastlimit.Key, error) {
		return fastlimit.Key{}, fmt.Errorf("fastlimit/policy: rule %q: "+format, append([]any{rule.Name()}, args...)...)
	}
	if len(parts) != len(k.parts) {
		return fail("key has %d parts; want %d: %s", len(parts), len(k.parts), k.describe())
	}
	if k.addrOnly() {
		addr, err := k.addrFromText(parts[0])
		if err == nil {
			err = c.checkFamily(addr)
		}
		if err != nil {
			return fail("%w", err)
		}
		return rule.AddrKey(addr), nil
	}
	raw := make([][]byte, len(parts))
	for i, text := range parts {
		part, err := k.rawPart(i, text)
		if err != nil {
			return fail("%w", err)
		}
		raw[i] = part
	}
	return rule.BytesKey(raw...), nil
}

// rawPart is part i of a composite key, which requests with that text have.
func (k *keyMaker) rawPart(i int, text string) ([]byte, error) {
	p := &k.parts[i]
	if p.Kind != KeyIP {
		return partFromText(p.KeyPart, text)
	}
	addr, err := k.addrFromText(text)
	if err != nil {
		return nil, err
	}
	return k.appendAddr(nil, addr), nil
}

// LimitFromText returns what decides about a client named by a text as in
// [Engine.KeyFromText]: the rule, or the tier of it that an override has for the client,
// and the key. unlimited reports an override without limit: then ask nobody, and count
// by [fastlimit.Rule.Unlimited].
func (e *Engine) LimitFromText(rule *fastlimit.Rule, parts []string) (limit *fastlimit.Rule, key fastlimit.Key, unlimited bool, err error) {
	if key, err = e.KeyFromText(rule, parts); err != nil {
		return nil, key, false, err
	}
	c := e.ruleOf(rule)
	if c.overrides == nil {
		return rule, key, false, nil
	}
	var client netip.Addr
	if c.addrOnly {
		client, _ = c.key.addrFromText(parts[0]) // KeyFromText has checked it
	}
	limit = c.find(key, client)
	return limit, key, limit == nil, nil
}

// addrFromText reads an address or, as KeyText shows it, a prefix.
func (k *keyMaker) addrFromText(text string) (netip.Addr, error) {
	base, _, isPrefix := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(base)
	addr = plain(addr)
	if err != nil || !isPrefix && !identifies(addr) {
		return addr, fmt.Errorf("key %q is no client's address; write for example 192.0.2.7 or 2001:db8::1", text)
	}
	if !isPrefix {
		return addr, nil
	}
	if p, err := netip.ParsePrefix(text); err != nil || p != k.prefix(addr) {
		return addr, fmt.Errorf("key %q: the rule counts such clients as %s", text, prefixText(k.prefix(addr)))
	}
	return addr, nil
}

// TalkerKey returns what a client is called by who asks for it in [Engine.KeyFromText], given
// its name among the top talkers of a rule. It is nil if the name was cut, is none, or has
// bytes that no text can have.
func (e *Engine) TalkerKey(rule *fastlimit.Rule, name []byte) []string {
	k := e.keyOf(rule)
	p, raw, ok := rule.TalkerKey(name)
	switch {
	case !ok || k == nil:
		return nil
	case p.IsValid():
		return []string{prefixText(p)}
	case len(raw) != len(k.parts):
		return nil
	}
	texts := make([]string, len(raw))
	for i, b := range raw {
		if texts[i] = string(b); k.parts[i].Kind == KeyIP {
			texts[i] = k.addrText(b)
		}
		if back, err := k.rawPart(i, texts[i]); err != nil || !utf8.ValidString(texts[i]) || !bytes.Equal(back, b) {
			return nil
		}
	}
	return texts
}

// addrText is the text of an address that appendAddr has written; "" if it is none.
func (k *keyMaker) addrText(b []byte) string {
	var full [16]byte
	switch len(b) {
	case 4:
		return prefixText(k.prefix(netip.AddrFrom4([4]byte(b))))
	case 8, 16:
		copy(full[:], b)
		return prefixText(k.prefix(netip.AddrFrom16(full)))
	}
	return ""
}

func partFromText(p KeyPart, text string) ([]byte, error) {
	if text == "" {
		return nil, fmt.Errorf("key part %s is empty; the rule does not apply to such requests", p)
	}
	switch p.Kind {
	case KeyHost:
		host, ok := AppendHost(nil, []byte(text))
		if !ok {
			return nil, fmt.Errorf("key part %q is no host; write for example www.example.com", text)
		}
		return host, nil
	case KeyPath:
		if !isCanonicalPath(text) {
			return nil, fmt.Errorf("key part %q is no canonical path: write it decoded, without query, dots resolved and slashes merged", text)
		}
	case KeyGlobal:
		if text != string(globalPart) {
			return nil, fmt.Errorf("key part %q: want %q", text, globalPart)
		}
	}
	return []byte(text), nil
}

// isCanonicalPath reports whether s is a path that a key can have: one that all servers read alike.
func isCanonicalPath(s string) bool {
	if !strings.HasPrefix(s, "/") {
		return false
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", ";", "%3B").Replace(s)
	path, matter, ok := appendReading(nil, []byte(escaped), 0)
	return ok && matter == 0 && string(path) == s
}

func (k *keyMaker) describe() string {
	names := make([]string, len(k.parts))
	for i, p := range k.parts {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}

// prefixText is the prefix, or the address if it contains only that.
func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// printable makes bytes of a client safe for logs and terminals.
func printable(b []byte) string { return safetext.Unicode(b, maxKeyText) }
