package policy

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/keytext"
)

// Values of headers and cookies may be secrets. All texts of keys show the limiter's
// fingerprint of a value instead, as "#" and 16 hex digits. Equal values have equal
// fingerprints, and [Engine.HashKey] computes that of a known value. [Settings].ShowKeys
// lists the headers and cookies whose values may be read. Hashes are never sent to clients
// or used in decisions.

const hashDigits = 16

// shows reports whether the value of a header or cookie may be read.
func shows(shown []string, p KeyPart) bool {
	return slices.ContainsFunc(shown, func(name string) bool {
		return name == ShowAllKeys || name == p.Name || p.Kind == KeyHeader && strings.EqualFold(name, p.Name)
	})
}

// HashKey returns the text that replaces a value in a key that must not be read.
func (e *Engine) HashKey(value string) string {
	return hashText((*engine.Limiter)(e.lim).Fingerprint([]byte(value)))
}

func hashText(sum [8]byte) string { return fmt.Sprintf("#%x", sum) }

// isHash reports whether a part of a key that somebody has written is a hash.
func (p *keyPart) isHash(text string) bool {
	return p.hidden && len(text) == 1+hashDigits && text[0] == '#' && strings.Trim(text[1:], "0123456789abcdef") == ""
}

// HideKey returns the parts of a key of the rule with secret values hidden. For a rule of
// another policy it is not known what the parts are, so all are hidden except addresses.
func (e *Engine) HideKey(rule *fastlimit.Rule, parts []string) []string {
	k, hidden := (*keyMaker)(nil), slices.Clone(parts)
	if rule != nil {
		k = e.keyLike(rule)
	}
	for i, text := range parts {
		if k == nil && !keytext.IsAddress(text) || k != nil && i < len(k.parts) && k.parts[i].hidden && !k.parts[i].isHash(text) {
			hidden[i] = e.HashKey(text)
		}
	}
	return hidden
}

// errUnknownHash says what to do about a hash that belongs to no client here.
var errUnknownHash = errors.New("no client that this node knows has it whole: write the value itself")

// RevealKey returns the parts of a key with values in place of hashes, if there are any. It
// takes the values from names of clients ([fastlimit.Rule.TopTalkers], [fastlimit.Ban]),
// some of which are cut.
func (e *Engine) RevealKey(rule *fastlimit.Rule, parts []string, names iter.Seq[string]) ([]string, error) {
	k := e.keyOf(rule)
	if k == nil || len(parts) != len(k.parts) {
		return parts, nil
	}
	revealed := slices.Clone(parts)
	for i, hash := range parts {
		if !k.parts[i].isHash(hash) {
			continue
		}
		value, ok := e.valueOf(rule, i, hash, names)
		if !ok {
			return nil, fmt.Errorf("fastlimit/policy: rule %q: key part %s: %w", rule.Name(), hash, errUnknownHash)
		}
		revealed[i] = value
	}
	return revealed, nil
}

// valueOf returns the value of part i with that hash.
func (e *Engine) valueOf(rule *fastlimit.Rule, i int, hash string, names iter.Seq[string]) (string, bool) {
	for name := range names {
		_, raw, ok := (*engine.Rule)(rule).ParseName([]byte(name))
		if ok && i < len(raw) && !raw[i].Cut && e.HashKey(string(raw[i].Bytes)) == hash {
			return string(raw[i].Bytes), true
		}
	}
	return "", false
}
