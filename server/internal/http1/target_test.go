package http1

import "testing"

func TestValidTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, target string
		want           bool
	}{
		{"GET", "/", true},
		{"GET", "//a", true},
		{"OPTIONS", "*", true},
		{"GET", "http://a/", true},
		{"GET", "HTTPS://a", true},
		{"GET", "*", false},
		{"options", "*", false},
		{"OPTIONS", "**", false},
		{"CONNECT", "a:443", false},
		{"CONNECT", "/", false},
		{"PRI", "*", false},
		{"PRI", "/", false},
		{"GET", "", false},
		{"GET", "a", false},
		{"GET", "ftp://a", false},
		{"GET", "http:a", false},
		{"GET", "/#", false},
		{"GET", "/\x80", false},
		{"GET", "/1234567\x80", false},
		{"GET", "/12345678\xff", false},
		{"GET", "/\xc3\xa9aaaaaaaaaaaaaaaa", false},
	} {
		if got := ValidTarget([]byte(c.method), []byte(c.target)); got != c.want {
			t.Errorf("%s %q: got %v", c.method, c.target, got)
		}
	}
}
