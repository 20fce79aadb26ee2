package policy

import (
	"net/netip"
	"testing"
)

// TestClientsBehindATranslator: they are the IPv4 clients that they are, for rules, lists, bans,
// overrides and whoever writes their address, and not one client together.
func TestClientsBehindATranslator(t *testing.T) {
	t.Parallel()
	spec := RuleSpec{Limit: ruleOf("r", 1), Key: key(byIP), Overrides: []Override{{Key: []string{"64:ff9b::198.51.100.9"}, Burst: 3}}}
	set := Settings{Rules: []RuleSpec{spec}, Deny: []netip.Prefix{netip.MustParsePrefix("64:ff9b::203.0.113.0/120")}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	e, id := mustEngine(t, set), mustIdentity(t, "", "192.0.2.0/24")
	admits := func(peer string) (n int) {
		for range 5 {
			var s Scratch
			var r Request
			in := Incoming{Peer: netip.MustParseAddr(peer), Method: []byte("GET"), Target: []byte("/"), Host: []byte("a")}
			if res := e.Assemble(id, &in, &s, &r); res.Refused != NotRefused || res.Trusted {
				t.Fatalf("%s: %+v", peer, res)
			}
			if want := plain(in.Peer); r.Client != want {
				t.Errorf("the client of %s is %v, want %v", peer, r.Client, want)
			}
			if e.Decide(t.Context(), &r, &s).Decision.Allowed {
				n++
			}
		}
		return n
	}
	for _, tc := range []struct {
		peer string
		want int
	}{
		{"64:ff9b::198.51.100.1", 1},
		{"64:ff9b::198.51.100.2", 1},
		{"198.51.100.1", 0},
		{"64:ff9b::198.51.100.9", 3},
		{"64:ff9b::203.0.113.7", 0},
		{"64:ff9b::192.0.2.1", 1}, // no trusted proxy
	} {
		if got := admits(tc.peer); got != tc.want {
			t.Errorf("%s is admitted %d times, want %d", tc.peer, got, tc.want)
		}
	}
	rule := e.rules[0].limit
	a, err := e.KeyFromText(rule, []string{"64:ff9b::c633:6401"})
	b, err2 := e.KeyFromText(rule, []string{"198.51.100.1"})
	if err != nil || err2 != nil || a.Digest() != b.Digest() {
		t.Errorf("by its text it is another client: %v %v", err, err2)
	}
	if p, err := ParseBan("64:ff9b::c633:6401"); err != nil || p.String() != "198.51.100.1/32" {
		t.Errorf("the ban of one is of %v, %v", p, err)
	}
}
