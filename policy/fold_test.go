package policy

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestFolded(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/LogIn": "/login", "/\u212aEY/\u017f": "/key/s", "/Ä": "/Ä", "/ä": "/Ä", "/ß\u1e9e": "/ßß", "/ΣΑΣς": "/ΣΑΣΣ", "/\xffA": "/\xffa", "/100%": "/100%", "": "",
	} {
		if got := foldedText(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.String().Draw(rt, "path")
		f := foldedText(s)
		for _, same := range []string{f, strings.ToUpper(s), strings.ToLower(s), strings.Map(unicode.SimpleFold, s)} {
			if strings.EqualFold(same, s) && foldedText(same) != f {
				rt.Fatalf("%q and %q differ: %q, %q", s, same, f, foldedText(same))
			}
		}
	})
}

// TestIgnoreCase: a rule for an app that ignores case is not evaded by it, in its match and in its
// key, while what is exempt is exempt as it is written.
func TestIgnoreCase(t *testing.T) {
	t.Parallel()
	spec := RuleSpec{Limit: ruleOf("r", 1), Key: key(byIP, byPath), Match: Match{
		Paths: []string{"/Login*", "*.PHP"}, IgnoreCase: true, Not: Exemption{Paths: []string{"/login/free"}},
	}, Overrides: []Override{{Key: []string{"192.0.2.0/24", "/LOGIN/More"}, Burst: 3}}}
	spec.Limit.IPv4Prefix = 24
	e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
	exact := spec
	exact.Match.IgnoreCase, exact.Overrides = false, nil
	if a, b := spec.keyKind(), exact.keyKind(); a == b {
		t.Errorf("nodes that ignore case and others count as one: %s", a)
	}
	admits := func(paths ...string) (n int) {
		for i, path := range paths {
			var s Scratch
			r := Request{Client: netip.MustParseAddr("192.0.2.7"), Method: []byte("GET")}
			if !s.readPath([]byte(path), &r) {
				t.Fatalf("%s is no path", path)
			}
			v := e.Decide(t.Context(), &r, &s)
			if v.Decision.Allowed {
				n++
			}
			if text := e.KeyText(e.rules[0].limit, &r); i == 0 && text.Text != "192.0.2.0/24 "+foldedText(string(r.Path)) {
				t.Errorf("%s: %+v", path, text)
			}
		}
		return n
	}
	for _, tc := range []struct {
		paths []string
		want  int
	}{
		{[]string{"/login", "/LOGIN", "/lOgIn", "/log%49n", "/LOG\u0130N"}, 2}, // the last one is another letter
		{[]string{"/a/x.php", "/A/X.PHP", "/a/x.Php"}, 1},
		{[]string{"/login/free", "/login/free", "/LOGIN/free", "/Login/FREE"}, 3},
		{[]string{"/login/more", "/LOGIN/MORE", "/login/More", "/login/morE"}, 3},
		{[]string{"/other", "/OTHER"}, 2},
	} {
		if got := admits(tc.paths...); got != tc.want {
			t.Errorf("%q: %d admitted, want %d", tc.paths, got, tc.want)
		}
	}
}
