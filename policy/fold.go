package policy

import (
	"unicode"
	"unicode/utf8"
)

// AppendFolded appends a path in which one letter stands for all letters that a server that
// ignores case takes for the same: lower case, and for letters outside ASCII the first of
// them by Unicode's simple folding, as some servers do. Bytes that are not UTF-8 stay. Keys
// of rules with [Match].IgnoreCase have paths in this form.
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

// folded returns the first of all letters that r folds to, in lower case if it is in ASCII.
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

// anyPathFolded is anyPath for folded patterns.
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
