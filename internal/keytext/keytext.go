// Package keytext is the text form of a client's key: its parts, with one space between
// them. A part is quoted, as Go quotes strings, if it is empty or has a space, a quote, an
// ellipsis, a character that does not print or bytes that are not UTF-8. A part that was
// cut ends with an ellipsis, outside of the quotes if it has some.
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

// AppendPrefix appends what stands for a client that is an address: the address, or the prefix
// by which addresses are grouped.
func AppendPrefix(dst []byte, p netip.Prefix) []byte {
	if p.IsSingleIP() {
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}

// IsAddress reports whether a part that somebody has written is an address or a prefix.
func IsAddress(part string) bool {
	base, _, _ := strings.Cut(part, "/")
	_, err := netip.ParseAddr(base)
	return err == nil
}

// Prefix is what AppendPrefix appends.
func Prefix(p netip.Prefix) string { return string(AppendPrefix(nil, p)) }

// appendCut appends a part that was cut, without the rest of a character at its end.
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

// wholeRunes is s without the first bytes of a character at its end.
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
	nameless bool // no call can name the client by the parts
}

// Add adds a part, which is cut after so many bytes.
func (b *Builder) Add(part string, most int) {
	if len(part) > most {
		b.AddCut(part[:most])
		return
	}
	b.text = Append(b.separated(), part)
	b.parts = append(b.parts, part)
	b.nameless = b.nameless || !utf8.ValidString(part)
}

// AddCut adds a part of which this is the beginning.
func (b *Builder) AddCut(part string) {
	b.text = appendCut(b.separated(), part)
	b.Nameless()
}

// Nameless has no call name the client by the parts.
func (b *Builder) Nameless() { b.nameless = true }

func (b *Builder) separated() []byte {
	if len(b.text) > 0 {
		return append(b.text, ' ')
	}
	return b.text
}

// Text is the key.
func (b *Builder) Text() string { return string(b.text) }

// Parts are those of the key, nil if one is cut, or has bytes that are not UTF-8.
func (b *Builder) Parts() []string {
	if b.nameless {
		return nil
	}
	return b.parts
}

// Join is the text of a key.
func Join(parts []string) string { return JoinCut(parts, math.MaxInt) }

// JoinCut is the text of a key of which each part is cut after so many bytes.
func JoinCut(parts []string, most int) string {
	var b Builder
	for _, p := range parts {
		b.Add(p, most)
	}
	return b.Text()
}

// split returns the parts of a key. It takes all that [Join] returns, and more: only a quote
// at the beginning of a part has a meaning.
func split(text string) (parts []string, err error) {
	for {
		part, rest := text, ""
		if strings.HasPrefix(text, `"`) {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, errors.New("a quoted part does not end, or has an invalid escape")
			}
			part, _ = strconv.Unquote(quoted) // which QuotedPrefix has checked
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

// Read returns the parts of a key of n that somebody has written: the parts, or the text of
// all in one. What cannot be read comes back as it is.
func Read(written []string, n int) []string {
	if len(written) == 1 && (n > 1 || strings.HasPrefix(written[0], `"`)) {
		if parts, err := split(written[0]); err == nil && len(parts) == n {
			return parts
		}
	}
	return slices.Clone(written)
}
