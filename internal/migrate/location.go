package migrate

import (
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/policy"
)

// setPaths reads which paths a location takes. One within another is for paths that
// both match, and of two prefixes that is the inner one.
func (b *block) setPaths() {
	kind, arg := locationKind(b.d.Args)
	outer := b.paths
	var why string
	switch kind {
	case "", "^~", "=":
		b.paths, why = prefixPattern(arg, kind == "=")
	case "~", "~*":
		b.paths, why = regexPatterns(arg, kind == "~*")
		if len(outer) > 0 && why == "" {
			why = "is inside another location, and a pattern cannot express both"
		}
	case "@":
		why = "is only for requests that nginx itself sends there"
	default:
		why = "is not a location"
	}
	if b.unmatched == "" && why != "" {
		b.unmatched = text(b.d) + " " + why
	}
}

// locationKind splits the arguments of a location into its modifier and the rest,
// which may be written in one.
func locationKind(args []string) (kind, arg string) {
	if len(args) == 2 {
		return args[0], args[1]
	}
	if len(args) != 1 {
		return "?", ""
	}
	for _, kind := range []string{"=", "^~", "~*", "~", "@"} {
		if arg, ok := strings.CutPrefix(args[0], kind); ok {
			return kind, arg
		}
	}
	return "", args[0]
}

// prefixPattern is the pattern of a path, or of all that begin with it; none is
// needed for /, as all do. why says what is wrong with the path.
func prefixPattern(path string, exact bool) (patterns []string, why string) {
	switch {
	case path == "/" && !exact:
		return nil, ""
	case strings.Contains(path, "*"):
		return nil, "contains a star, which is a wildcard here"
	case !exact:
		path += "*"
	}
	return checked(path)
}

// checked returns patterns if a request can match each of them. nginx compares with
// the same normal form, so a location that is written otherwise is dead there too.
func checked(patterns ...string) ([]string, string) {
	for _, p := range patterns {
		if policy.CheckPathPattern(p) != nil {
			return nil, "is not a path as in requests, decoded and with dots and slashes resolved"
		}
	}
	return patterns, ""
}

// maxPatterns is how many patterns one regular expression may become.
const maxPatterns = 32

// regexPatterns are the patterns of a regular expression that is made of text,
// anything, and a choice of these.
func regexPatterns(re string, fold bool) (patterns []string, why string) {
	const cannot = "is a regular expression that no pattern can express"
	// nginx has PCRE, which is near enough: what Go does not know is no text.
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return nil, cannot
	}
	texts, ok := expand(parsed.Simplify())
	if !ok {
		return nil, cannot
	}
	for _, t := range texts {
		if t, ok = anchored(t); !ok {
			return nil, cannot
		}
		if fold && strings.ToLower(t) != strings.ToUpper(t) { // it has letters
			return nil, "ignores case, and patterns do not"
		}
		patterns = append(patterns, t)
	}
	return checked(distinct(patterns)...)
}

// The anchors as expand writes them; no path has such bytes.
const begin, end = "\x01", "\x02"

// anchored makes a text with anchors a pattern: without one it may go on.
func anchored(t string) (string, bool) {
	t, first := strings.CutPrefix(t, begin)
	t, last := strings.CutSuffix(t, end)
	if strings.ContainsAny(t, begin+end) {
		return "", false
	}
	if !first {
		t = "*" + t
	}
	if !last {
		t += "*"
	}
	for strings.Contains(t, "**") { // as of /.* without an end
		t = strings.ReplaceAll(t, "**", "*")
	}
	return t, t != "*" && t != ""
}

// expand lists the texts that a regular expression stands for, in which a star is
// anything.
func expand(re *syntax.Regexp) (texts []string, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		// A star of the text would be a wildcard; (?i) within the expression is
		// another way to say ~*.
		s := string(re.Rune)
		return []string{s}, re.Flags&syntax.FoldCase == 0 && !strings.ContainsAny(s, "*"+begin+end)
	case syntax.OpBeginText:
		return []string{begin}, true
	case syntax.OpEndText:
		return []string{end}, true
	case syntax.OpCapture:
		return expand(re.Sub[0])
	case syntax.OpStar: // .* only: [a-z]* is less than anything
		return []string{"*"}, re.Sub[0].Op == syntax.OpAnyCharNotNL || re.Sub[0].Op == syntax.OpAnyChar
	case syntax.OpAlternate:
		return expandEach(re.Sub)
	case syntax.OpCharClass:
		return expandClass(re.Rune)
	case syntax.OpConcat:
		return expandInRow(re.Sub)
	case syntax.OpQuest:
		texts, ok = expand(re.Sub[0])
		return append([]string{""}, texts...), ok
	}
	return nil, false
}

// expandEach lists the texts of a choice.
func expandEach(subs []*syntax.Regexp) (texts []string, ok bool) {
	for _, sub := range subs {
		more, ok := expand(sub)
		if texts = append(texts, more...); !ok || len(texts) > maxPatterns {
			return nil, false
		}
	}
	return texts, true
}

// expandInRow lists the texts of one after the other: every one of the first with
// every one of the next.
func expandInRow(subs []*syntax.Regexp) (texts []string, ok bool) {
	texts = []string{""}
	for _, sub := range subs {
		more, ok := expand(sub)
		if !ok || len(texts)*len(more) > maxPatterns {
			return nil, false
		}
		var row []string
		for _, t := range texts {
			for _, m := range more {
				row = append(row, t+m)
			}
		}
		texts = row
	}
	return texts, true
}

// expandClass lists the characters of a small class, such as of [ab]: what the
// parser makes of a choice of letters.
func expandClass(ranges []rune) (texts []string, ok bool) {
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if texts = append(texts, string(r)); len(texts) > maxPatterns || r == '*' {
				return nil, false
			}
		}
	}
	return texts, true
}

// covers tells whether every path of inner is one of outer, as far as prefixes and
// single paths tell.
func covers(outer, inner []string) bool {
	if len(outer) == 0 {
		return true
	}
	for _, in := range inner {
		if !slices.ContainsFunc(outer, func(out string) bool {
			// A star elsewhere than at the end would need to be matched.
			prefix, open := strings.CutSuffix(out, "*")
			return !strings.Contains(prefix, "*") && open && strings.HasPrefix(in, prefix) || in == out
		}) {
			return false
		}
	}
	return len(inner) > 0
}
