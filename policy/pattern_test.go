package policy

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		glob, text string
		want       bool
	}{
		{"/", "/", true},
		{"/a", "/a", true},
		{"/a", "/ab", false},
		{"/a", "/", false},
		{"/a", "/A", false},
		{"/api/*", "/api/", true},
		{"/api/*", "/api/a/b/c", true}, // crosses slashes
		{"/api/*", "/api", false},
		{"/api/*", "/apis/", false},
		{"*.php", "/a/b.php", true},
		{"*.php", "/a/b.php5", false},
		{"*", "", true},
		{"*", "/a", true},
		{"a*a", "a", false}, // head and tail may not overlap
		{"a*a", "aa", true},
		{"a*a", "aba", true},
		{"ab*ba", "aba", false},
		{"*ab*", "ab", true},
		{"*a*b*", "ba", false},
		{"*a*a*", "a", false}, // each piece takes bytes of its own
		{"a*a*", "a", false},
		{"*a*a", "a", false},
		{"*aa*a", "aaa", true},
		{"*aa*a", "aa", false},
		{"a**b", "ab", true},
		{"/*/x/*/y", "/1/x/2/x/3/y", true},
		{"/a.b", "/axb", false}, // nothing but a star is special
		{"/a?", "/ab", false},
		{"/[a]", "/a", false},
	} {
		p := compilePattern(tc.glob)
		if got := p.match([]byte(tc.text)); got != tc.want {
			t.Errorf("%q matches %q: %v, want %v", tc.glob, tc.text, got, tc.want)
		}
	}
}

// globRegexp is the oracle.
func globRegexp(glob string) *regexp.Regexp {
	pieces := strings.Split(glob, "*")
	for i, p := range pieces {
		pieces[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(pieces, `.*`) + `\z`)
}

func TestPatternAgainstRegexp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[ab/*]{0,8}`).Draw(t, "glob")
		text := rapid.StringMatching(`[ab/]{0,12}`).Draw(t, "text")
		p := compilePattern(glob)
		if got, want := p.match([]byte(text)), globRegexp(glob).MatchString(text); got != want {
			t.Fatalf("%q matches %q: %v, want %v", glob, text, got, want)
		}
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("/api/*", "/api/x")
	f.Add("a*b*c", "aXbXc")
	f.Add("*a*a*a*b", "aaaaaaaaaaaaaaaaaa")
	f.Add("ab*ba", "aba")
	f.Fuzz(func(t *testing.T, glob, text string) {
		// The oracle knows runes, not bytes.
		if glob, text = strings.ToValidUTF8(glob, "?"), strings.ToValidUTF8(text, "?"); len(glob) > 1000 {
			return
		}
		p := compilePattern(glob)
		if got, want := p.match([]byte(text)), globRegexp(glob).MatchString(text); got != want {
			t.Fatalf("%q matches %q: %v, want %v", glob, text, got, want)
		}
	})
}
