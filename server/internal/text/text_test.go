package text

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`, "é": `\u00e9`, "\xff": `\xff`,
		strings.Repeat("a", 200): strings.Repeat("a", MaxLogged) + "…",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
