package safetext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "世界": "世…", "\xff\xff\xff\xff\xff": "\xff\xff\xff\xff…", "\x80\x80\x80\x80\x80": "…",
	} {
		if got := Clip(in, 4); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "a b": "a b", "Zürich": "Zürich", "\x1b[2J": `"\x1b[2J"`, "a\nb": `"a\nb"`, "\u202e": `"\u202e"`, "\xff": `"\xff"`,
		strings.Repeat("a", 30): strings.Repeat("a", 20) + "…",
	} {
		if got := Quote(in, 20); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Whatever goes in, what comes out prints, is valid and is bounded.
func FuzzSafe(f *testing.F) {
	f.Add("a\x00\xff\u202e\x1b[31m", 8)
	f.Add(strings.Repeat("世", 100), 20)
	f.Fuzz(func(t *testing.T, s string, most int) {
		if most &= 0xff; most < 4 {
			most = 4
		}
		for name, got := range map[string]string{"ASCII": ASCII(s, most), "Quote": Quote(s, most)} {
			if !utf8.ValidString(got) || len(got) > 10*most+20 {
				t.Errorf("%s(%q, %d) = %q", name, s, most, got)
			}
			for _, r := range got {
				if !unicode.IsPrint(r) {
					t.Errorf("%s(%q, %d) = %q", name, s, most, got)
				}
			}
		}
		if !utf8.ValidString(s) {
			return
		}
		if got := Clip(s, most); !utf8.ValidString(got) || len(got) > most+len("…") {
			t.Errorf("Clip(%q, %d) = %q", s, most, got)
		}
	})
}
