package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"serve", "store", "top", "ban", "bans", "validate", "version", "rls", "n", "trusted_proxies", "GET"}
	for name, want := range map[string]string{
		"sevre": "serve", "srve": "serve", "serves": "serve", "stroe": "store", "baans": "bans", "trusted_proxy": "trusted_proxies",
		"TOP": "top", "gte": "GET", "N": "n", // case does not count
		"val": "validate", "trusted": "trusted_proxies", "VERS": "version", // the beginning of one name
		"ve": "version", "v": "", // and of several, or a single letter
		"foo": "", "x": "", "": "", "tip": "top", "zop": "top", "oops": "", "listen": "",
		"sxxxe": "", "store-init-all": "", strings.Repeat("serve", 1<<18): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
	if got := Nearest("serv", nil); got != "" {
		t.Errorf("of no names: %q", got)
	}
	if got := Nearest("s", []string{"serve"}); got != "" {
		t.Errorf("of a letter: %q", got)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "ab", 2},
		{"ab", "ab", 0},
		{"ab", "ba", 1},
		{"abc", "ac", 1},
		{"ac", "abc", 1},
		{"abc", "axc", 1},
		{"abcd", "badc", 2},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},
		{"abcde", "ab", 5},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
