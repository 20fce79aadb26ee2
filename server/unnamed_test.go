package server

import (
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit/policy"
)

// unnamedSettings has a rule by address, one by header and one for all, with
// 127.0.0.1 as the proxy.
func unnamedSettings(what policy.UnnamedAction, o policy.OriginalRequest) policy.Settings {
	set := perIP()
	set.TrustedProxies = loopback()
	set.OnUnnamed, set.OriginalRequest = what, o
	byHeader, global := set.Rules[0], set.Rules[0]
	byHeader.Limit.Name, byHeader.Key = "both", []policy.KeyPart{{Kind: policy.KeyHeader, Name: "X-Api-Key"}, {Kind: policy.KeyIP}}
	global.Limit.Name, global.Limit.Burst, global.Key = "all", 1000, []policy.KeyPart{{Kind: policy.KeyGlobal}}
	set.Rules = append(set.Rules, byHeader, global)
	return set
}

func TestOnUnnamed(t *testing.T) {
	t.Parallel()
	const named, target = "192.0.2.7", "/a"
	for _, c := range []struct {
		name          string
		what          policy.UnnamedAction
		original      policy.OriginalRequest
		client        string // X-Forwarded-For, "-" for none
		uri           string // X-Original-URI, "-" for none
		fourth        int    // status of the fourth request
		count, perIP  uint64 // unnamed, and requests that the rule by address counted
		warnings, all int    // and requests that the rule for all counted
	}{
		{"named", policy.UnnamedDeny, policy.OriginalXOriginal, named, target, 429, 0, 4, 0, 3},
		{"no client, peer", policy.UnnamedPeer, 0, "-", "-", 429, 4, 4, 1, 3},
		{"no client, skip", policy.UnnamedSkip, 0, "-", "-", 200, 4, 0, 1, 4},
		{"no client, deny", policy.UnnamedDeny, 0, "-", "-", 400, 4, 0, 1, 0},
		{"an empty client, deny", policy.UnnamedDeny, 0, "", "-", 400, 4, 0, 1, 0},
		{"unknown, deny", policy.UnnamedDeny, 0, "unknown", "-", 400, 4, 0, 1, 0},
		{"a proxy that names none, deny", policy.UnnamedDeny, 0, "unknown, 127.0.0.9", "-", 400, 4, 0, 1, 0},
		{"all trusted, deny", policy.UnnamedDeny, 0, "127.0.0.9", "-", 429, 0, 4, 0, 3},
		{"no request, peer", policy.UnnamedPeer, policy.OriginalXOriginal, named, "-", 429, 4, 4, 1, 3},
		{"no request, skip", policy.UnnamedSkip, policy.OriginalXOriginal, named, "-", 200, 4, 0, 1, 4},
		{"no request, deny", policy.UnnamedDeny, policy.OriginalXOriginal, named, "-", 400, 4, 0, 1, 0},
		{"an empty request, deny", policy.UnnamedDeny, policy.OriginalXOriginal, named, "", 400, 4, 0, 1, 0},
		{"neither, skip", policy.UnnamedSkip, policy.OriginalXOriginal, "-", "-", 200, 4, 0, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, unnamedSettings(c.what, c.original))
			head := "GET /auth HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: k\r\n"
			if c.client != "-" {
				head += "X-Forwarded-For: " + c.client + "\r\n"
			}
			if c.uri != "-" {
				head += "X-Original-URI: " + c.uri + "\r\n"
			}
			last := 0
			for range 4 {
				last = raw(t, s.addr, head+"\r\n")[0].StatusCode
			}
			if last != c.fourth {
				t.Errorf("the fourth got %d, want %d", last, c.fourth)
			}
			if s.decide.Unnamed() != c.count || s.logs.Count("a trusted proxy does not name") != c.warnings {
				t.Errorf("counted %d, warned:\n%s", s.decide.Unnamed(), s.logs)
			}
			seen := func(i int) uint64 {
				st := s.config().Limiter.Rules()[i].Stats()
				return sum(st.Allowed[:]) + sum(st.Denied[:])
			}
			if seen(0) != c.perIP || seen(2) != uint64(c.all) {
				t.Errorf("the rule by address counted %d, that for all %d", seen(0), seen(2))
			}
		})
	}
}

// Strangers are their own clients: nothing of theirs is unnamed.
func TestStrangersAreNotUnnamed(t *testing.T) {
	t.Parallel()
	set := unnamedSettings(policy.UnnamedDeny, policy.OriginalXOriginal)
	set.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	s := start(t, set)
	if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 200 || s.decide.Unnamed() != 0 {
		t.Errorf("got %d, counted %d", resp.StatusCode, s.decide.Unnamed())
	}
}

// skip does not let a listed client pass: the deny list goes by the client,
// where one is named, and never by the proxy.
func TestSkipKeepsTheLists(t *testing.T) {
	t.Parallel()
	set := unnamedSettings(policy.UnnamedSkip, policy.OriginalXOriginal)
	set.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("127.0.0.0/8")}
	s := start(t, set)
	if resp := get(t, "http://"+s.addr+"/", "X-Forwarded-For", "192.0.2.7"); resp.StatusCode != 403 {
		t.Errorf("a listed client without an original request got %d", resp.StatusCode)
	}
	if resp := get(t, "http://"+s.addr+"/"); resp.StatusCode != 200 {
		t.Errorf("the list was asked about the proxy: %d", resp.StatusCode)
	}
}
