package policy

import (
	"net/netip"
	"strings"
	"testing"
)

// checkErrors runs check over all keys of cases. A value is what the error must
// say, "" for none.
func checkErrors(t *testing.T, check func(string) error, cases map[string]string) {
	t.Helper()
	for in, want := range cases {
		err := check(in)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v, want no error", in, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want one that says %q", in, err, want)
		}
	}
}

func TestCheckHostPattern(t *testing.T) {
	t.Parallel()
	checkErrors(t, CheckHostPattern, map[string]string{
		"*":                         "",
		"example.com":               "",
		"Example.COM":               "",
		"*.example.com":             "",
		"www.*.com":                 "",
		"[2001:db8::1]":             "",
		"[2001:db8:*":               "",
		"":                          "leave match.host out",
		strings.Repeat("a", 2000):   "not 1 to 1024",
		"example.com:80":            `write "example.com"`,
		"example.com.":              `write "example.com"`,
		"*:80":                      "without port",
		"*.example.com.":            "without port and trailing dot",
		"[2001:DB8:0::1]":           `write "[2001:db8::1]"`,
		"http://example.com":        "not a host name",
		"*.example.com/a":           "not a host name",
		"bücher.de":                 "not a host name",
		"exa mple.com":              "not a host name",
		strings.Repeat("long.", 60): "not a host name",
	})
}

func TestCheckPathPattern(t *testing.T) {
	t.Parallel()
	checkErrors(t, CheckPathPattern, map[string]string{
		"/":         "",
		"/api/*":    "",
		"*":         "",
		"*.php":     "",
		"*/admin":   "",
		"/100%":     "",
		"/100%*":    "",
		"/a%2fb":    "",
		"/a b":      "",
		"/.well/*":  "",
		"/a/..*":    "",
		"":          "leave match.path out",
		"api/*":     `write "/api/*"`,
		"/a%20b":    `write "/a b"`,
		"/a%2Fb":    `write "/a%2fb"`,
		"/a//b":     `write "/a/b"`,
		"/a/./b":    `write "/a/b"`,
		"/a/../b/*": `write "/b/*"`,
		"/a?b=*":    `write "/a"`,
		"*/a//b":    `write "*/a/b"`,
		"/%00":      "never reaches a rule",
	})
}

func TestCheckMethod(t *testing.T) {
	t.Parallel()
	checkErrors(t, CheckMethod, map[string]string{
		"GET": "", "M-SEARCH": "",
		"get": "not one in capital", "": "not one in capital", "GET POST": "not one in capital", "*,": "no method",
	})
}

func TestCheckKeyPart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		part KeyPart
		ok   bool
	}{
		{KeyPart{Kind: KeyIP}, true},
		{KeyPart{Kind: KeyGlobal}, true},
		{KeyPart{Kind: KeyHeader, Name: "X-Api-Key"}, true},
		{KeyPart{Kind: KeyCookie, Name: "sid"}, true},
		{KeyPart{Kind: KeyHeader}, false},
		{KeyPart{Kind: KeyHeader, Name: "X Api"}, false},
		{KeyPart{Kind: KeyCookie, Name: "a=b"}, false},
		{KeyPart{Kind: KeyGlobal + 1}, false},
	} {
		if err := CheckKeyPart(tc.part); (err == nil) != tc.ok {
			t.Errorf("CheckKeyPart(%+v) = %v", tc.part, err)
		}
	}
}

func TestNormalPrefix(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.7/24":           "192.0.2.0/24",
		"2001:db8::1/32":         "2001:db8::/32",
		"::ffff:192.0.2.0/120":   "192.0.2.0/24",
		"::ffff:192.0.2.255/120": "192.0.2.0/24",
		"::ffff:0.0.0.0/96":      "0.0.0.0/0",
		"::/0":                   "::/0",
	} {
		if got, err := normalPrefix("Allow", netip.MustParsePrefix(in)); err != nil || got.String() != want {
			t.Errorf("normalPrefix(%s) = %v, %v, want %s", in, got, err, want)
		}
	}
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/8")} {
		if got, err := normalPrefix("Allow", bad); err == nil {
			t.Errorf("normalPrefix(%v) = %v, want an error", bad, got)
		}
	}
}
