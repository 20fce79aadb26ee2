package policy

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAppendPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ target, want string }{
		{"/", "/"},
		{"/a/b", "/a/b"},
		{"/a/b/", "/a/b/"},
		{"/a?b=/../c", "/a"},
		{"/a#b", "/a"},
		{"/a?b#c", "/a"},
		{"/a#b?c", "/a"},
		{"/?", "/"},
		{"*", "/"},
		{"http://example.com", "/"},
		{"http://example.com/", "/"},
		{"HTTPS://example.com:8443//a/./b?c", "/a/b"},
		{"http://example.com?a", "/"},
		{"//example.com/a", "/example.com/a"},
		{"/%61%2E%2e/b", "/a../b"},
		{"/a/%2e%2E/b", "/b"},
		{"/a/%2e/b", "/a/b"},
		{"/%252e%252e/b", "/%2e%2e/b"},
		{"/a%2Fb", "/a%2fb"},
		{"/a%2fb", "/a%2fb"},
		{"/a/..%2f../b", "/a/..%2f../b"},
		{"/a%252Fb", "/a%2Fb"},
		{"/a%3fb%23", "/a?b#"},
		{"/a+b%20c", "/a+b c"},
		{`/a\..\b`, `/a\..\b`},
		{"/%5c", `/\`},
		{"/%ff\xff", "/\xff\xff"},
		{"////", "/"},
		{"/a///b//", "/a/b/"},
		{"/a//../b", "/b"},
		{"/..", "/"},
		{"/../../a", "/a"},
		{"/a/..", "/"},
		{"/a/b/..", "/a/"},
		{"/a/b/../", "/a/"},
		{"/a/.", "/a/"},
		{"/.", "/"},
		{"/./", "/"},
		{"/a/b/../../../c/./d", "/c/d"},
		{"/...", "/..."},
		{"/.a/..b/c.", "/.a/..b/c."},
	} {
		got, ok := AppendPath([]byte("x"), []byte(tc.target))
		if !ok || string(got) != "x"+tc.want {
			t.Errorf("AppendPath(%q) = %q, %v, want %q", tc.target, got, ok, "x"+tc.want)
		}
	}
}

func TestAppendPathRefuses(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"", "?", "#", "a", "a/b", "**", "*/a", "*?a", // no form that has a path
		"example.com:80", "http:/a", "http:///a", "://a/b", "1http://a/b", "ht_tp://a/b",
		"/%", "/%2", "/%zz", "/%2g", "/%g2", "/a%", "/a/%/b", "/a/b%u0041", // malformed escapes
		"/%00", "/a\x00b",
	} {
		got, ok := AppendPath([]byte("x"), []byte(target))
		if ok || string(got) != "x" {
			t.Errorf("AppendPath(%q) = %q, %v, want it refused", target, got, ok)
		}
	}
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ target, want string }{
		{"http://Example.com:80/a", "Example.com:80"},
		{"http://example.com", "example.com"},
		{"http://example.com?a", "example.com"},
		{"http://u@example.com/", "u@example.com"}, // AppendHost refuses it
		{"/a", ""},
		{"//example.com/a", ""},
		{"/http://example.com/", ""},
		{"*", ""},
		{"example.com:80", ""},
		{"", ""},
	} {
		if got, _, _ := splitTarget([]byte(tc.target)); string(got) != tc.want {
			t.Errorf("authority of %q = %q, want %q", tc.target, got, tc.want)
		}
	}
}

var (
	escape   = regexp.MustCompile(`%([0-9A-Fa-f]{2})?`)
	slashes  = regexp.MustCompile(`/+`)
	absolute = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^/]+`)
)

// slowPath is AppendPath one step at a time. An escaped slash is a NUL
// meanwhile, which no path holds.
func slowPath(target string) (path string, ok bool) {
	raw, _, _ := strings.Cut(target, "#")
	raw, _, _ = strings.Cut(raw, "?")
	switch {
	case target == "*" || raw != "" && absolute.FindString(raw) == raw:
		return "/", true
	case !strings.HasPrefix(raw, "/"):
		raw = raw[len(absolute.FindString(raw)):]
	}
	if !strings.HasPrefix(raw, "/") || strings.Contains(raw, "\x00") {
		return "", false
	}
	ok = true
	decoded := escape.ReplaceAllStringFunc(raw, func(e string) string {
		b, err := hex.DecodeString(e[1:])
		switch {
		case err != nil || len(b) == 0 || b[0] == 0:
			ok = false
		case b[0] == '/':
			return "\x00"
		}
		return string(b)
	})
	if !ok {
		return "", false
	}
	segments := strings.Split(slashes.ReplaceAllString(decoded, "/"), "/")[1:]
	var kept []string
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
			fallthrough
		case ".":
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, s)
		}
	}
	return strings.ReplaceAll("/"+strings.Join(kept, "/"), "\x00", "%2f"), true
}

// checkPath holds AppendPath against its promises and the oracle.
func checkPath(t interface {
	Fatalf(format string, args ...any)
}, target string,
) {
	got, ok := AppendPath(nil, []byte(target))
	want, wantOK := slowPath(target)
	if ok != wantOK || string(got) != want {
		t.Fatalf("AppendPath(%q) = %q, %v, want %q, %v", target, got, ok, want, wantOK)
	}
	if !ok {
		return
	}
	if got[0] != '/' || bytes.IndexByte(got, 0) >= 0 {
		t.Fatalf("AppendPath(%q) = %q", target, got)
	}
	for _, bad := range []string{"//", "/./", "/../"} {
		if strings.Contains(string(got), bad) {
			t.Fatalf("AppendPath(%q) = %q: holds %q", target, got, bad)
		}
	}
	if bytes.HasSuffix(got, []byte("/.")) || bytes.HasSuffix(got, []byte("/..")) {
		t.Fatalf("AppendPath(%q) = %q: ends in a dot segment", target, got)
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(string(got))
	if again, ok := AppendPath(nil, []byte(escaped)); !ok || string(again) != string(got) { // escaped anew, it stays
		t.Fatalf("AppendPath(%q) = %q: not canonical", target, got)
	}
}

func TestAppendPathAgainstOracle(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{
		"/", "/", "//", ".", "..", "a", "b", "%2e", "%2E", "%2f", "%2F", "%25", "%41", "%5c", `\`,
		"%", "%0", "%00", "?", "#", "*", "http://", ":", "h", "\x00", " ", "é",
	})
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]string{"/", "/", "/", "", "http://h", "http://h/"}).Draw(t, "start")
		pieces := rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces")
		checkPath(t, start+strings.Join(pieces, ""))
	})
}

func FuzzAppendPath(f *testing.F) {
	for _, s := range []string{"/", "*", "/a/../b", "/%2e%2e/", "/a%2Fb", "/%00", "/%252e", "http://h:80/a?b", "//a//.//", "/a/./../..", `/\..\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) { checkPath(t, target) })
}
