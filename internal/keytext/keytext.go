// Package keytext is the text form of a client's key: its parts, separated by one space. A part is quoted, as
// Go quotes strings, if it is empty or has a space, a quote, an ellipsis, an unprintable character or invalid
// UTF-8. A cut part ends with an ellipsis, outside of any quotes.
//
//	192.0.2.0/24 GET "/a b"
package keytext

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ellipsis marks a part that was cut.
const ellipsis = "…"

// Append appends a part.
func Append(dst []byte, part string) []byte {
	if isPlain(part) {
		return append(dst, part...)
	}
	return strconv.AppendQuote(dst, part)
}

// AppendPrefix appends the text of a client that is an address: the address, or the prefix that groups
// addresses.
func AppendPrefix(dst []byte, p netip.Prefix) []byte {
	if p.IsSingleIP() {
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}

// IsAddress reports whether a part that somebody wrote is an address or a prefix.
func IsAddress(part string) bool {
	base, _, _ := strings.Cut(part, "/")
	_, err := netip.ParseAddr(base)
	return err == nil
}

// Prefix returns what AppendPrefix appends.
func Prefix(p netip.Prefix) string { return string(AppendPrefix(nil, p)) }

// appendCut appends a part that was cut, without an incomplete character at its end.
func appendCut(dst []byte, part string) []byte {
	if part = wholeRunes(part); part != "" {
		dst = Append(dst, part)
	}
	return append(dst, ellipsis...)
}

func isPlain(part string) bool {
	return part != "" && utf8.ValidString(part) &&
		!strings.ContainsFunc(part, func(r rune) bool { return r == ' ' || r == '"' || r == '…' || !strconv.IsPrint(r) })
}

// wholeRunes returns s without an incomplete character at its end.
func wholeRunes(s string) string {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if last := s[len(s)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return s[:len(s)-n]
			}
			break
		}
	}
	return s
}

// Builder makes the text of a key. The zero value has no parts.
type Builder struct {
	text     []byte
	parts    []string
	nameless bool // no request can name the client by the parts
}

// Add adds a part, cut after most bytes.
func (b *Builder) Add(part string, most int) {
	if len(part) > most {
		b.AddCut(part[:most])
		return
	}
	b.text = Append(b.separated(), part)
	b.parts = append(b.parts, part)
	b.nameless = b.nameless || !utf8.ValidString(part)
}

// AddCut adds a part of which only the beginning is known.
func (b *Builder) AddCut(part string) {
	b.text = appendCut(b.separated(), part)
	b.Nameless()
}

// Nameless marks a key whose parts no request can use.
func (b *Builder) Nameless() { b.nameless = true }

func (b *Builder) separated() []byte {
	if len(b.text) > 0 {
		return append(b.text, ' ')
	}
	return b.text
}

// Text is the key.
func (b *Builder) Text() string { return string(b.text) }

// Parts returns the parts of the key, or nil if one is cut or is not valid UTF-8.
func (b *Builder) Parts() []string {
	if b.nameless {
		return nil
	}
	return b.parts
}

// Join is the text of a key.
func Join(parts []string) string { return JoinCut(parts, math.MaxInt) }

// JoinCut is the text of a key with each part cut after most bytes.
func JoinCut(parts []string, most int) string {
	var b Builder
	for _, p := range parts {
		b.Add(p, most)
	}
	return b.Text()
}

// split returns the parts of a key. It accepts everything that [Join] returns, and more: a quote is special
// only at the beginning of a part.
func split(text string) (parts []string, err error) {
	for {
		part, rest := text, ""
		if strings.HasPrefix(text, `"`) {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, errors.New("a quoted part does not end, or has an invalid escape")
			}
			part, _ = strconv.Unquote(quoted) // checked by QuotedPrefix
			rest = text[len(quoted):]
		} else if i := strings.IndexByte(text, ' '); i >= 0 {
			part, rest = text[:i], text[i:]
		}
		if part == "" && !strings.HasPrefix(text, `"`) {
			return nil, errors.New(`a part is empty: write one space between parts, and "" for an empty one`)
		}
		parts = append(parts, part)
		if rest == "" {
			return parts, nil
		}
		if rest[0] != ' ' {
			return nil, errors.New("a quoted part ends before a character that is no space")
		}
		text = rest[1:]
	}
}

// Read returns the n parts of a key that somebody wrote: the parts, or one text of them all. What cannot be
// read is returned unchanged.
func Read(written []string, n int) []string {
	if len(written) == 1 && (n > 1 || strings.HasPrefix(written[0], `"`)) {
		if parts, err := split(written[0]); err == nil && len(parts) == n {
			return parts
		}
	}
	return slices.Clone(written)
}
