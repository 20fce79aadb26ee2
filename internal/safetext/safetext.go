// Package safetext makes text that others have written fit for logs and
// terminals: on one line, without control characters, and not for pages.
package safetext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip cuts s to at most that many bytes, between characters, and says so by an
// ellipsis.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Unicode escapes what does not print as Go does, and keeps everything else. What
// is longer than about that many bytes is cut.
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

// ASCII cuts s to that many bytes, and escapes all of it as Go does if anything in
// it is not printable ASCII.
func ASCII(s string, most int) string {
	cut := ""
	if len(s) > most {
		s, cut = s[:most], "…"
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			q := strconv.QuoteToASCII(s)
			s = q[1 : len(q)-1]
			break
		}
	}
	return s + cut
}

// Quote cuts s to that many bytes, and puts it in quotes, escaped, if anything in
// it does not print.
func Quote(s string, most int) string {
	s = Clip(s, most)
	unsafe := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unsafe) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
