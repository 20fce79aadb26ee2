package policy

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

func TestAppendHost(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxHost)
	for _, tc := range []struct{ raw, want string }{
		{"", ""},
		{"example.com", "example.com"},
		{"WWW.Example.COM", "www.example.com"},
		{"example.com:80", "example.com"},
		{"example.com:", "example.com"},
		{"example.com.", "example.com"},
		{"example.com.:8080", "example.com"},
		{"example.com:65535", "example.com"},
		{"a_b-c~1.xn--bcher-kva.de", "a_b-c~1.xn--bcher-kva.de"},
		{"192.0.2.1:80", "192.0.2.1"},
		{"[::1]", "[::1]"},
		{"[2001:DB8:0:0::1]:443", "[2001:db8::1]"},
		{"[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]"},
		{long, long},
		{long + ".:80", long},
	} {
		got, ok := AppendHost([]byte("x"), []byte(tc.raw))
		if !ok || string(got) != "x"+tc.want {
			t.Errorf("AppendHost(%q) = %q, %v, want %q", tc.raw, got, ok, "x"+tc.want)
		}
	}
}

func TestAppendHostRefuses(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		".", "..", ".a", "a..", "a..b", ":80", ".:80",
		"a:x", "a:65536", "a:80:80", "a:-1", "a: 80", "a:99999999999999999999", "a:18446744073709551696",
		"a b", "a/b", "a@b", "a,b", "a%41", "a\x00", "a\r\nb", "bücher.de", "a*", "a[b]",
		"::1", "2001:db8::1", "[]", "[", "[::1", "[::1]x", "[::1]:x", "[::1%eth0]", "[192.0.2.1]", "[g::1]",
		strings.Repeat("a", maxHost+1),
	} {
		got, ok := AppendHost([]byte("x"), []byte(raw))
		if ok || string(got) != "x" {
			t.Errorf("AppendHost(%q) = %q, %v, want it refused", raw, got, ok)
		}
	}
}

var canonicalHost = regexp.MustCompile(`^(|[a-z0-9_~-]+(\.[a-z0-9_~-]+)*|\[[0-9a-f:.]+\])$`)

func FuzzAppendHost(f *testing.F) {
	for _, s := range []string{"", "Example.com.:80", "[::1]:80", "[::ffff:1.2.3.4]", "a..b", "a:", ":80", "[fe80::1%25a]", "192.0.2.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, ok := AppendHost(nil, []byte(raw))
		if !ok {
			if len(got) > 0 {
				t.Fatalf("AppendHost(%q) = %q, refused", raw, got)
			}
			return
		}
		if !canonicalHost.Match(got) || len(got) > maxHost {
			t.Fatalf("AppendHost(%q) = %q: not canonical", raw, got)
		}
		again, ok := AppendHost(nil, got)
		if !ok || !bytes.Equal(again, got) {
			t.Fatalf("AppendHost(%q) = %q, but of that %q, %v", raw, got, again, ok)
		}
		upper, ok := AppendHost(nil, []byte(strings.ToUpper(raw)))
		if !ok || !bytes.Equal(upper, got) {
			t.Fatalf("AppendHost(%q) = %q, in upper case %q, %v", raw, got, upper, ok)
		}
	})
}
