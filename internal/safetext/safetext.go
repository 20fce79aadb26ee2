// Package safetext makes untrusted text safe for logs and terminals: a single line
// of bounded length without control characters.
package safetext

import (
	"strconv"
	"strings"
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
