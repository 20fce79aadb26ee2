package keytext

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want  string
		parts []string
	}{
		{"192.0.2.7", []string{"192.0.2.7"}},
		{"192.0.2.0/24 GET /a,b", []string{"192.0.2.0/24", "GET", "/a,b"}},
		{`"" "a b" "say \"hi\""`, []string{"", "a b", `say "hi"`}},
		{`C:\temp it's ünï`, []string{`C:\temp`, "it's", "ünï"}},
		{`"\x00\xff" "\u202e" "\u00a0" "\x1b[2J\n"`, []string{"\x00\xff", "\u202e", "\u00a0", "\x1b[2J\n"}},
		{`"a…"`, []string{"a…"}},
	} {
		if got := Join(tt.parts); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.parts, got, tt.want)
		}
		if back, err := split(tt.want); err != nil || !slices.Equal(back, tt.parts) {
			t.Errorf("%s: %q, %v", tt.want, back, err)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]string{{"/long", "/long…"}, {"a b", `"a b"…`}, {"", "…"}, {"ü\xc3", "ü…"}, {"\xe2\x80", "…"}, {"\xf0\x9f\x98", "…"}, {"x\xff", `"x\xff"…`}, {"😀", "😀…"}} {
		if got := string(appendCut(nil, tt[0])); got != tt[1] {
			t.Errorf("%q: %s, want %s", tt[0], got, tt[1])
		}
	}
}

// Whoever writes a key by hand learns what is wrong with it.
func TestSplitRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]string{
		{"", "is empty"},
		{" a", "is empty"},
		{"a ", "is empty"},
		{"a  b", "is empty"},
		{`"a`, "does not end"},
		{`"\y"`, "escape"},
		{`"a"b`, "no space"},
	} {
		if parts, err := split(tt[0]); err == nil || !strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: %q, %v; want an error with %s", tt[0], parts, err, tt[1])
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n             int
		written, want []string
	}{
		{1, []string{"a b"}, []string{"a b"}},
		{1, []string{`"a b"`}, []string{"a b"}},
		{1, []string{`"a" b`}, []string{`"a" b`}},
		{2, []string{"a b"}, []string{"a", "b"}},
		{2, []string{`a "b c"`}, []string{"a", "b c"}},
		{2, []string{"a b c"}, []string{"a b c"}},
		{2, []string{"a", `"b"`}, []string{"a", `"b"`}},
		{3, []string{"a"}, []string{"a"}},
		{2, nil, nil},
	} {
		if got := Read(tt.written, tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("%q of %d: %q, want %q", tt.written, tt.n, got, tt.want)
		}
	}
}

// FuzzText: whatever clients send, a key is one line that prints, and reads as what it is.
func FuzzText(f *testing.F) {
	f.Add("", "a b", "\xff\"\\")
	f.Add("#0123", "…", "\u202e\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		parts := []string{a, b, c}
		text := Join(parts)
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
			t.Errorf("%q has what does not print", text)
		}
		if back, err := split(text); err != nil || !slices.Equal(back, parts) {
			t.Errorf("%q: %s: %q, %v", parts, text, back, err)
		}
		if cut := string(appendCut(nil, a)); strings.ContainsFunc(cut, func(r rune) bool { return !unicode.IsPrint(r) }) || !strings.HasSuffix(cut, ellipsis) {
			t.Errorf("%q: %q", a, cut)
		}
		if parts, err := split(a); err == nil && !slices.Equal(parts, must(split(Join(parts)))) {
			t.Errorf("%q: %q", a, parts)
		}
	})
}

func must(parts []string, err error) []string {
	if err != nil {
		panic(err)
	}
	return parts
}
