package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// keyed is a server with one rule by a header or a cookie.
func keyed(t *testing.T, kind policy.KeyKind, name string) *running {
	set := perIP()
	set.Rules[0].Key = []policy.KeyPart{{Kind: kind, Name: name}}
	return start(t, set)
}

// A second instance of what a key is made of is refused wherever it stands:
// the upstream may go by the one that no rule has counted.
func TestRepeatedKeyFieldsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  policy.KeyKind
		name  string
		lines string
		want  int
	}{
		{policy.KeyHeader, "X-Api-Key", "X-Api-Key: k\r\n", 200},
		{policy.KeyHeader, "X-Api-Key", "", 200},
		{policy.KeyHeader, "X-Api-Key", "X-Api-Key:\r\n", 200},
		{policy.KeyHeader, "X-Api-Key", "X-Api-Key:\r\nX-Api-Key: k\r\n", 400},
		{policy.KeyHeader, "X-Api-Key", "X-Api-Key: k\r\nX-Api-Key: k\r\n", 400},
		{policy.KeyHeader, "X-Api-Key", "X-Api-Key: k\r\nAccept: a\r\nx-API-key:l\r\n", 400},
		{policy.KeyHeader, "X-Api-Key", "X-Api-Key: k\r\nX-Api-Keys: l\r\nX-Api: l\r\nX: X-Api-Key: l\r\n", 200},
		{policy.KeyHeader, "X-Api-Key", "Accept: a\r\nAccept: b\r\n", 200},
		{policy.KeyHeader, "User-Agent", "User-Agent: a\r\nUser-Agent: b\r\n", 400},
		{policy.KeyHeader, "content-type", "Content-Type: a\r\nContent-Type: b\r\n", 400},
		{policy.KeyCookie, "sid", "Cookie: sid=a\r\n", 200},
		{policy.KeyCookie, "sid", "Cookie: sid=a; sid=b\r\n", 400},
		{policy.KeyCookie, "sid", "Cookie: sid=; x=y;sid=b\r\n", 400},
		{policy.KeyCookie, "sid", "Cookie: sid=a\r\nCookie: sid=b\r\n", 400},
		{policy.KeyCookie, "sid", "Cookie: x=y\r\ncookie: sid=b\r\n", 200},
		{policy.KeyCookie, "sid", "Cookie: sid = a;\tsid= b\r\n", 400},
		{policy.KeyCookie, "sid", "Cookie: sid=\"a\";sid=\r\n", 400},
		{policy.KeyCookie, "sid", "Cookie: Sid=a; sid=b; ssid=c; sid; x=sid=d\r\n", 200},
	} {
		t.Run(c.name+" "+c.lines, func(t *testing.T) {
			t.Parallel()
			s := keyed(t, c.kind, c.name)
			all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+c.lines+"\r\n")
			if len(all) != 1 || all[0].StatusCode != c.want {
				t.Errorf("%v, want %d", all, c.want)
			}
			refused := uint64(0)
			if c.want == 400 {
				refused = 1
			}
			if n := s.reason(t, "repeated"); n != refused {
				t.Errorf("counted %d times", n)
			}
			if st := s.config().Limiter.Rules()[0].Stats(); c.want == 400 && sum(st.Allowed[:]) != 0 {
				t.Error("charged")
			}
		})
	}
}

// All spellings of a cookie that an upstream reads as one value are one key.
func TestCookieSpellings(t *testing.T) {
	t.Parallel()
	s := keyed(t, policy.KeyCookie, "sid")
	spellings := []string{"sid=v", "sid=\"v\"", "sid = v", " sid=v ", "a=b;sid=v", "a=b;  sid=v; c=d", "\tsid=\tv\t;", "bad\x80=\x80; sid=v"}
	denied := 0
	for _, cookie := range spellings {
		all := raw(t, s.addr, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie:%s\r\n\r\n", cookie))
		if len(all) == 1 && all[0].StatusCode == 429 {
			denied++
		}
	}
	if denied != len(spellings)-3 {
		t.Errorf("%d of %d were denied: they are not one key", denied, len(spellings))
	}
}

// A cookie that fasthttp's parser drops for its value is a key all the same.
func TestCookieWithAnyValueIsAKey(t *testing.T) {
	t.Parallel()
	s := keyed(t, policy.KeyCookie, "sid")
	last := 0
	for range 4 {
		all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: sid=a,b\\c\xff d\r\n\r\n")
		last = all[len(all)-1].StatusCode
	}
	if last != 429 {
		t.Errorf("the fourth got %d", last)
	}
}

func TestOriginalRequestOfOtherHostsKeepsHostValid(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.TrustedProxies = loopback()
	set.OriginalRequest = policy.OriginalXForwarded
	s := start(t, set)
	all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a..b\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: c\r\nX-Forwarded-Uri: /\r\n\r\n")
	if len(all) != 1 || all[0].StatusCode != 400 || s.reason(t, "host") != 1 {
		t.Errorf("%v", all)
	}
	if strings.Contains(s.logs.String(), "panic") {
		t.Error(s.logs)
	}
}
