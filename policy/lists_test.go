package policy

import (
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit"
	"pgregory.net/rapid"
)

func TestLists(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{
		Rules: []RuleSpec{{Limit: ruleOf("per-ip", 1), Key: key(byIP)}},
		Allow: prefixes("10.0.0.0/8", "192.0.2.7/32", "198.51.100.0/24", "2001:db8::/32"),
		Deny:  prefixes("192.0.2.0/24", "10.1.0.0/16", "198.51.100.9/24", "::ffff:203.0.113.0/120", "2001:db8:1::/48"),
	})
	for client, want := range map[string]ListVerdict{
		"10.0.0.1":           ListAllow,
		"::ffff:10.0.0.1":    ListAllow,
		"10.1.2.3":           ListDeny, // the longer prefix
		"192.0.2.1":          ListDeny,
		"192.0.2.7":          ListAllow, // the longer prefix
		"198.51.100.1":       ListDeny,  // equal prefixes
		"203.0.113.1":        ListDeny,  // a mapped prefix
		"::ffff:203.0.113.1": ListDeny,
		"2001:db8::1":        ListAllow,
		"2001:db8:1::1":      ListDeny,
		"2001:db8:1::1%eth0": ListDeny,
		"11.0.0.1":           ListNone,
		"2001:db9::1":        ListNone,
	} {
		var s Scratch
		for range 3 { // more than the rule allows
			v := e.Decide(t.Context(), sampleRequest(client), &s)
			if v.List != want {
				t.Errorf("%s: list verdict %d, want %d", client, v.List, want)
			}
			if want == ListNone {
				break
			}
			d := v.Decision
			if v.Rule != nil || d.Stage != fastlimit.StageList || d.Allowed != (want == ListAllow) || d.RetryAfter != 0 || d.Remaining != fastlimit.RemainingUnknown {
				t.Errorf("%s: %+v, want the list to decide", client, v)
			}
			if n := len(s.Applied()); n != 0 {
				t.Errorf("%s: %d rules applied", client, n)
			}
		}
	}
	if v := e.Decide(t.Context(), &Request{}, new(Scratch)); v.List != ListNone {
		t.Errorf("no client: list verdict %d", v.List)
	}
}

// Without a list verdict the rules decide: none must be left over from the
// request before.
func TestListsAfterRules(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("per-ip", 1), Key: key(byIP)}}, Allow: prefixes("10.0.0.0/8")})
	var s Scratch
	e.Decide(t.Context(), sampleRequest("192.0.2.1"), &s)
	if v := e.Decide(t.Context(), sampleRequest("10.0.0.1"), &s); v.List != ListAllow || len(s.Applied()) != 0 {
		t.Errorf("%+v, applied %v", v, s.Applied())
	}
}

func TestListsAgainstOracle(t *testing.T) {
	t.Parallel()
	prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
		b := [4]byte{10, rapid.Byte().Draw(t, "b") & 3, rapid.Byte().Draw(t, "c") & 3}
		return netip.PrefixFrom(netip.AddrFrom4(b), rapid.SampledFrom([]int{0, 8, 14, 15, 16, 22, 23, 24, 32}).Draw(t, "bits"))
	})
	rapid.Check(t, func(t *rapid.T) {
		allow := rapid.SliceOfN(prefix, 0, 6).Draw(t, "allow")
		deny := rapid.SliceOfN(prefix, 0, 6).Draw(t, "deny")
		l, err := NewLists(allow, deny)
		if err != nil {
			t.Fatal(err)
		}
		addr := prefix.Draw(t, "client").Addr()
		longest := func(list []netip.Prefix) int {
			bits := -1
			for _, p := range list {
				if p.Contains(addr) {
					bits = max(bits, p.Bits())
				}
			}
			return bits
		}
		want, a, d := ListNone, longest(allow), longest(deny)
		switch {
		case d >= a && d >= 0:
			want = ListDeny
		case a >= 0:
			want = ListAllow
		}
		if got := l.Lookup(addr); got != want {
			t.Fatalf("%v: verdict %d, want %d", addr, got, want)
		}
	})
}
