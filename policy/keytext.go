package policy

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/keytext"
)

// maxKeyText is how many bytes of a key part are shown.
const maxKeyText = 256

// KeyText is a client's key in readable form. An address is shown as its prefix if that
// covers more than the address.
type KeyText struct {
	Text  string   // one printable line: see package keytext
	Parts []string // as calls that name a client take them; nil: one is cut, or is not UTF-8
}

func textOf(b *keytext.Builder) KeyText { return KeyText{b.Text(), b.Parts()} }

// KeyText returns the key of a request for a rule. A part that the request lacks is empty,
// and long ones are cut. It returns the zero KeyText for a rule of another policy.
func (e *Engine) KeyText(rule *fastlimit.Rule, r *Request) KeyText {
	k := e.keyOf(rule)
	if k == nil {
		return KeyText{}
	}
	var b keytext.Builder
	for i := range k.parts {
		p, text := &k.parts[i], ""
		switch addr := plain(r.Client); {
		case p.named():
			if text = string(first(e.fields[p.field].values(r.Fields))); p.hidden && text != "" {
				text = e.HashKey(text)
			}
		case p.Kind != KeyIP:
			text = string(e.part(k, p, r, nil)) // needs no scratch
		case identifies(addr):
			text = keytext.Prefix(k.prefix(addr))
		}
		b.Add(text, maxKeyText)
	}
	return textOf(&b)
}

// keyOf returns the key maker of a rule, or nil for a rule of another policy.
func (e *Engine) keyOf(limit *fastlimit.Rule) *keyMaker {
	if c := e.ruleOf(limit); c != nil {
		return &c.key
	}
	return nil
}

// keyLike is keyOf, but also accepts a rule of the policy before or after this one, if the
// rule of that name here makes its keys alike.
func (e *Engine) keyLike(limit *fastlimit.Rule) *keyMaker {
	if k := e.keyOf(limit); k != nil {
		return k
	}
	for i := range e.rules {
		if r := e.rules[i].limit; r.Name() == limit.Name() && r.Config().KeyKind == limit.Config().KeyKind {
			return &e.rules[i].key
		}
	}
	return nil
}

// ruleOf returns the compiled rule of a limit or of one of its tiers, nil for a limit of
// another policy.
func (e *Engine) ruleOf(limit *fastlimit.Rule) *rule {
	if i := (*engine.Rule)(limit).Index(); i < len(e.rules) && (*engine.Rule)(e.rules[i].limit) == (*engine.Rule)(limit).Base() {
		return &e.rules[i]
	}
	return nil
}

// KeyFromText is the inverse of [KeyText].Parts: it returns the key of a request with these
// parts, such as an address or its prefix, the value of a header, a canonical path. A host
// need not be canonical.
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
		return fail("key has %s; want %d: %s", inParts(len(parts)), len(k.parts), k.describe())
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

// rawPart returns part i of a composite key of requests with that text.
func (k *keyMaker) rawPart(i int, text string) ([]byte, error) {
	p := &k.parts[i]
	if p.Kind != KeyIP {
		part, err := partFromText(p.KeyPart, text)
		if p.Kind == KeyPath && k.ignoreCase {
			part = AppendFolded(nil, part)
		}
		return part, err
	}
	addr, err := k.addrFromText(text)
	if err != nil {
		return nil, err
	}
	return k.appendAddr(nil, addr), nil
}

// LimitFromText returns the limit of a client named by a text as in [Engine.KeyFromText],
// which is the rule or the tier of it that an override has for the client, and the key.
// unlimited reports an override without limit: then ask no limit.
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

// addrFromText reads an address or, in the form of [KeyText], a prefix.
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
		return addr, fmt.Errorf("key %q: the rule counts such clients as %s", text, keytext.Prefix(k.prefix(addr)))
	}
	return addr, nil
}

// TalkerText returns the key of a client, given its name among the top talkers or bans of a
// rule ([fastlimit.Rule.TopTalkers], [fastlimit.Ban]).
func (e *Engine) TalkerText(rule *fastlimit.Rule, name []byte) KeyText {
	k := e.keyLike(rule)
	p, raw, ok := (*engine.Rule)(rule).ParseName(name)
	switch {
	case ok && p.IsValid():
		text := keytext.Prefix(p)
		return KeyText{text, []string{text}}
	case !ok || k == nil || len(raw) > len(k.parts): // it is not known which parts may be read
		return KeyText{Text: "?" + e.HashKey(string(name))}
	}
	var b keytext.Builder
	for i := range raw {
		e.addPart(&b, k, i, &raw[i])
	}
	if len(raw) < len(k.parts) {
		b.Nameless()
	}
	return textOf(&b)
}

// addPart adds part i of a client's name.
func (e *Engine) addPart(b *keytext.Builder, k *keyMaker, i int, part *keytext.Part) {
	text := string(part.Bytes)
	switch p := &k.parts[i]; {
	case p.hidden && !part.Cut:
		text = e.HashKey(text)
		b.Add(text, len(text))
		return
	case p.hidden && part.Print != nil:
		text = hashText([8]byte(part.Print))
		b.Add(text, len(text))
		return
	case p.hidden:
		b.AddCut("#")
		return
	case part.Cut:
		b.AddCut(text)
		return
	case p.Kind == KeyIP:
		text = k.addrText(part.Bytes)
	}
	b.Add(text, len(text))
	if back, err := k.rawPart(i, text); err != nil || !bytes.Equal(back, part.Bytes) {
		b.Nameless()
	}
}

// TalkerLimit is [Engine.LimitFromText] for a client given by its name among the top
// talkers or bans of a rule. ok is false for a name that was cut, or that is not of a rule
// of this policy.
func (e *Engine) TalkerLimit(rule *fastlimit.Rule, name []byte) (limit *fastlimit.Rule, key fastlimit.Key, unlimited, ok bool) {
	c := e.ruleOf(rule)
	p, raw, ok := (*engine.Rule)(rule).ParseName(name)
	if !ok || c == nil || !p.IsValid() && len(raw) != len(c.key.parts) || p.IsValid() != c.addrOnly {
		return nil, key, false, false
	}
	if p.IsValid() {
		key = rule.AddrKey(p.Addr())
	} else {
		parts := make([][]byte, len(raw))
		for i := range raw {
			if parts[i] = raw[i].Bytes; raw[i].Cut {
				return nil, key, false, false
			}
		}
		key = rule.BytesKey(parts...)
	}
	if limit = rule; c.overrides != nil {
		limit = c.find(key, p.Addr())
	}
	return limit, key, limit == nil, true
}

// ReadKey returns the parts of a key of the rule as somebody has written it: as parts, or
// all in one as [KeyText].Text.
func (e *Engine) ReadKey(rule *fastlimit.Rule, written []string) []string {
	n := 0
	if k := e.keyOf(rule); k != nil {
		n = len(k.parts)
	}
	return keytext.Read(written, n)
}

// addrText returns the text of an address that appendAddr has written; "" if it is none.
func (k *keyMaker) addrText(b []byte) string {
	var full [16]byte
	switch len(b) {
	case 4:
		return keytext.Prefix(k.prefix(netip.AddrFrom4([4]byte(b))))
	case 8, 16:
		copy(full[:], b)
		return keytext.Prefix(k.prefix(netip.AddrFrom16(full)))
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

// isCanonicalPath reports whether s is a path that a key can have: all servers read it
// alike.
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
