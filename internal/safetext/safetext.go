// Package safetext makes untrusted text safe for logs and terminals: a single line
// of bounded length without control characters.
package safetext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip cuts s to at most most bytes, between characters, and marks the cut with an
// ellipsis. It does not escape anything.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Unicode is for clients' keys, which operators compare with what they know. It escapes
// unprintable characters as Go does and keeps all others. It cuts the result after
// about most bytes, never within an escape.
func Unicode(b []byte, most int) string {
	var out []byte
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case unicode.IsPrint(r):
			out = append(out, b[:size]...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		if b = b[size:]; len(out) > most && len(b) > 0 {
			return string(out) + "…"
		}
	}
	return string(out)
}

// ASCII is for logs, which all kinds of programs read. It cuts s to most bytes and, if
// any byte is not printable ASCII, escapes all of it as Go does.
func ASCII(s string, most int) string {
	cut := ""
	if len(s) > most {
		s, cut = s[:most], "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		q := strconv.QuoteToASCII(s)
		s = q[1 : len(q)-1]
	}
	return s + cut
}

// Quote is for terminals. It cuts s to most bytes and, if any character is unprintable,
// returns it escaped and in quotes: the quotes tell it from text that has backslashes
// of its own.
func Quote(s string, most int) string {
	s = Clip(s, most)
	unsafe := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unsafe) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
