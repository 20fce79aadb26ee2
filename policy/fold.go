package policy

import (
	"unicode"
	"unicode/utf8"
)

// AppendFolded appends a path in which one letter stands for all that a server takes for the same
// if it ignores case: lower case, and for other letters than those of ASCII the first of them by
// Unicode's simple folding, as some servers do. Bytes that are not UTF-8 stay. It is what keys of
// rules with [Match].IgnoreCase have.
func AppendFolded(dst, path []byte) []byte {
	for i := 0; i < len(path); {
		c := path[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(path[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, c)
		} else {
			dst = utf8.AppendRune(dst, folded(r))
		}
		i += size
	}
	return dst
}

// folded is the first of all letters that r is folded to, in lower case if that is one of ASCII.
func folded(r rune) rune {
	first := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		first = min(first, next)
	}
	if 'A' <= first && first <= 'Z' {
		first += 'a' - 'A'
	}
	return first
}

func foldedText(s string) string { return string(AppendFolded(nil, []byte(s))) }

// anyPathFolded is anyPath for patterns that are folded.
func (r *Request) anyPathFolded(patterns []pattern) bool {
	var some [128]byte
	if anyOf(patterns, AppendFolded(some[:0], r.Path)) {
		return true
	}
	for _, p := range r.others {
		if anyOf(patterns, AppendFolded(some[:0], p)) {
			return true
		}
	}
	return false
}
