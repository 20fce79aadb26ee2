package policy

import (
	"strings"
	"testing"
)

func TestPathHint(t *testing.T) {
	t.Parallel()
	for glob, want := range map[string]string{
		"/": "", "/api/*": "", "*.php": "", "/file.*": "", "/.*": "", "/.well-known/*": "", "/c++": "", "/a(b)": "", "/100%": "",
		"/a:b": "", "/a/b:c/d": "", "/x{y": "", "/~user/*": "", "/a$b": "", "/[x]": "",
		"/users/:id":         `:id matches only itself, as only * stands for any text; write "/users/*"`,
		"/u/:id/posts/:post": `write "/u/*/posts/*"`,
		"/:a/:b":             `write "/*/*"`,
		"/u/{id}":            `{id} matches only itself`,
		"/u/<int:id>/x":      `write "/u/*/x"`,
		"/api/.*":            `not regular expressions, only * stands for any text; write "/api/*"`,
		"/api/.+":            `write "/api/*"`,
		"/api$":              `write "/api"`,
		"/v[0-9]+/x":         `write "/v*/x"`,
		`/a\.php`:            `write "/a.php"`,
		"/(a|b)":             "write for example /api/*, and several patterns in a list",
		"/a/[^/]+/b":         `write "/a/*/b"`,
		"/u/(?P<id>[0-9]+)":  "write for example /api/*",
		"*/a/(.*)/b":         `write "*/a/*/b"`,
	} {
		got := PathHint(glob)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", glob, got, want)
		}
	}
}

// What a regular expression is told to be is a pattern that is accepted and
// has no further hint.
func TestRegularExpressionsAreToldWhatToWrite(t *testing.T) {
	t.Parallel()
	checkErrors(t, CheckPathPattern, map[string]string{
		"^/api/.*":             `write "/api/*"`,
		"^/api/.*$":            `write "/api/*"`,
		"^/api":                `write "/api*"`,
		"^/api/v[0-9]+/users$": `write "/api/v*/users"`,
		`^/a\.php$`:            `write "/a.php"`,
		`.*\.php$`:             `write "*.php"`,
		`\.php$`:               `write "*.php"`,
		"^(/a|/b)$":            "several patterns in a list",
		"/api/(.*)?":           "not regular expressions",
	})
}

func FuzzPathHint(f *testing.F) {
	for _, s := range []string{"^/api/.*", "/:id", "^(a|b)$", "/{x}/<y>", `\.php$`, "/[a-z]+", "^^$$", "/(.*)", "/:a/:b/:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, glob string) {
		hint := PathHint(glob)
		_, fix, ok := strings.Cut(hint, "; write ")
		if hint == "" {
			return
		}
		if !ok || fix == "" || strings.ContainsAny(hint, "\n\r") {
			t.Errorf("%q: %q has no fix on one line", glob, hint)
		}
		if g := globOf(glob); g != "" && (CheckPathPattern(g) != nil || PathHint(g) != "") {
			t.Errorf("%q: told to write %q, which is no good", glob, g)
		}
	})
}
