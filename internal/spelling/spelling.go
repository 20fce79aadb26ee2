// Package spelling finds the name that was probably meant by a misspelled one: of a command, a flag, a
// setting or one of its values. It rather finds nothing than a name that looks different.
package spelling

import "strings"

// Question asks for the one of names that name is probably a misspelling of, with a space at its end so that
// advice can follow: "did you mean serve? ". It is "" if there is none.
func Question(name string, names []string) string {
	if best := Nearest(name, names); best != "" {
		return "did you mean " + best + "? "
	}
	return ""
}

// Nearest returns the name that name is probably a misspelling of, "" if there is none. Up to a third of
// its letters may differ, at least one, but never all; their case does not count. If no name is that near,
// the one that begins with it is returned, unless there are several.
func Nearest(name string, names []string) (best string) {
	name = strings.ToLower(name)
	least := min(max(1, len(name)/3), len(name)-1) + 1
	for _, candidate := range names {
		if n := distance(name, strings.ToLower(candidate)); n < least {
			best, least = candidate, n
		}
	}
	if best == "" && len(name) > 1 {
		return completion(name, names)
	}
	return best
}

// completion returns the only name that begins with prefix, "" if there is none or another one.
func completion(prefix string, names []string) (only string) {
	for _, candidate := range names {
		switch {
		case !strings.HasPrefix(strings.ToLower(candidate), prefix):
		case only != "":
			return ""
		default:
			only = candidate
		}
	}
	return only
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
