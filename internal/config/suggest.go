package config

import (
	"strconv"
	"strings"
)

// suggest lists the valid settings, and first the one that name is probably a
// misspelling of: up to a third of its letters may differ.
func suggest(name string, s *section) string {
	var valid []string
	for _, f := range s.settings {
		if f.value.read != nil {
			valid = append(valid, f.name)
		}
	}
	// The list is always shown: the suggestion may be wrong, and names are few.
	list := "valid here: " + strings.Join(valid, ", ")
	if best := nearest(strings.ToLower(name), valid, max(1, len(name)/3)); best != "" {
		return "did you mean " + best + "? " + list
	}
	return list
}

// nearest returns the first of the names that the fewest edits turn name into; "" if
// that takes more than maxEdits.
func nearest(name string, names []string, maxEdits int) (best string) {
	least := maxEdits + 1
	for _, candidate := range names {
		if n := distance(name, candidate); n < least {
			best, least = candidate, n
		}
	}
	return best
}

// distance is the number of bytes to insert, delete, replace or swap with their
// neighbor to turn a into b: the optimal string alignment distance. An a of more than
// twice the length of b is never a suggestion and not computed; it may be 1 MiB long.
func distance(a, b string) int {
	if len(a) > 2*len(b) {
		return len(a)
	}
	// Three rows of the matrix are enough: a swap looks back two.
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			cur[j+1] = min(prev[j]+change, prev[j+1]+1, cur[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cur[j+1] = min(cur[j+1], before[j-1]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

// printable shows the unknown name of a setting in its path: quoted where it would not
// read as one word. It is raw text of the file, and messages go to terminals and logs.
func printable(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r == ':' || !strconv.IsPrint(r) }
	if name == "" || len(name) > maxQuoted || strings.ContainsFunc(name, odd) {
		return quote(name)
	}
	return name
}
