package limits

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
	"github.com/fastlimit/fastlimit/policy"
)

// ask is a request of this test's own server.
type ask struct {
	client string
	from   policy.Origin
	cost   uint64
	noKey  bool
}

func clientOf(a ask, _ *policy.Identity) (netip.Addr, policy.Origin) {
	addr, _ := netip.ParseAddr(a.client)
	return addr, a.from
}

func mustSet(t testing.TB, unnamed policy.OnUnnamed, all ...Limit[ask]) *Set[ask] {
	t.Helper()
	s, err := New(all, clientOf, middlewaretest.Clients(t, "10.0.0.0/8", unnamed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDecide(t *testing.T) {
	t.Parallel()
	rules := middlewaretest.Rules(t, 3, 2)
	keyed := Limit[ask]{
		Rule: rules[1], Cost: func(a ask) uint64 { return a.cost },
		Key: func(a ask) (fastlimit.Key, bool) { return rules[1].AddrKey(netip.MustParseAddr(a.client)), !a.noKey },
	}
	s := mustSet(t, 0, Limit[ask]{Rule: rules[0]}, keyed)
	const client = "192.0.2.1"
	for i, c := range []struct {
		ask         ask
		allowed     bool
		by          int
		left0, left int64
	}{
		{ask{client, policy.FromPeer, 2, false}, true, 1, 2, 0},
		{ask{client, policy.FromPeer, 1, false}, false, 1, 2, 0}, // the first is not charged
		{ask{client, policy.FromPeer, 1, true}, true, 0, 1, 0},   // the second does not apply
		{ask{client, policy.FromPeer, 0, false}, true, 0, 0, 0},  // nor does it at cost 0
		{ask{client, policy.FromPeer, 0, false}, false, 0, 0, 0},
		{ask{"192.0.2.2", policy.FromPeer, 3, false}, false, 1, 0, 0}, // above the burst
	} {
		d, by, refused := s.Decide(t.Context(), c.ask)
		if d.Allowed != c.allowed || by != c.by || refused != policy.NotRefused {
			t.Errorf("request %d: %+v by %d, %v", i, d, by, refused)
		}
		if l0, l1 := middlewaretest.Left(rules[0], client), middlewaretest.Left(rules[1], client); l0 != c.left0 || l1 != c.left {
			t.Errorf("request %d: %d and %d left, want %d and %d", i, l0, l1, c.left0, c.left)
		}
	}
}

// At cost 0 a rule is not asked at all.
func TestFreeRequests(t *testing.T) {
	t.Parallel()
	rule := middlewaretest.Rules(t, 1)[0]
	s := mustSet(t, 0, Limit[ask]{Rule: rule, Cost: func(a ask) uint64 { return a.cost }})
	for range 3 {
		d, by, refused := s.Decide(t.Context(), ask{client: "192.0.2.1", from: policy.FromPeer})
		if !d.Allowed || by != -1 || refused != policy.NotRefused || d.Remaining != fastlimit.RemainingUnknown {
			t.Errorf("%+v by %d, %v", d, by, refused)
		}
	}
	if st := rule.Stats(); st.Allowed != (fastlimit.RuleStats{}).Allowed {
		t.Errorf("counted %v", st.Allowed)
	}
}

// A client without an address is refused where a rule goes by it, and only there.
func TestClientsWithoutANameOrAnAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from    policy.Origin
		unnamed policy.OnUnnamed
		refused policy.Refusal
		charged int64
	}{
		{policy.NoAddress, policy.UnnamedPeer, policy.RefusedPeer, 0},
		{policy.FromPeer, policy.UnnamedDeny, policy.NotRefused, 1},
		{policy.FromHeader, policy.UnnamedDeny, policy.NotRefused, 1},
		{policy.FromProxy, policy.UnnamedPeer, policy.NotRefused, 1},
		{policy.FromProxy, policy.UnnamedSkip, policy.NotRefused, 0},
		{policy.FromProxy, policy.UnnamedDeny, policy.RefusedUnnamed, 0},
	} {
		rules := middlewaretest.Rules(t, 1, 1)
		s := mustSet(t, c.unnamed, Limit[ask]{Rule: rules[0]})
		d, by, refused := s.Decide(t.Context(), ask{client: "10.0.0.1", from: c.from})
		if refused != c.refused || refused == policy.NotRefused && (!d.Allowed || by != int(c.charged)-1) {
			t.Errorf("%v, %v: %+v by %d, %v", c.from, c.unnamed, d, by, refused)
		}
		if got := 1 - middlewaretest.Left(rules[0], "10.0.0.1"); got != c.charged {
			t.Errorf("%v, %v: charged %d", c.from, c.unnamed, got)
		}
		own := mustSet(t, c.unnamed, Limit[ask]{Rule: rules[1], Key: func(ask) (fastlimit.Key, bool) { return rules[1].BytesKey(), true }})
		if d, _, refused := own.Decide(t.Context(), ask{from: c.from}); !d.Allowed || refused != policy.NotRefused {
			t.Errorf("%v, %v: a rule with a key of its own: %+v, %v", c.from, c.unnamed, d, refused)
		}
	}
}

func TestNewNamesTheMistake(t *testing.T) {
	t.Parallel()
	rules, others := middlewaretest.Rules(t, 1), middlewaretest.Rules(t, 1)
	for want, all := range map[string][]Limit[ask]{
		"no Limits":            nil,
		"no Rule in Limits[1]": {{Rule: rules[0]}, {}},
		"of another Limiter":   {{Rule: rules[0]}, {Rule: others[0]}},
		"stands there twice":   {{Rule: rules[0]}, {Rule: rules[0]}},
		"257 Limits: want at":  make([]Limit[ask], fastlimit.MaxRules+1),
	} {
		if _, err := New(all, clientOf, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, status := range []int{200, 399, 600} {
		if _, err := CheckStatus(status); err == nil {
			t.Errorf("status %d is accepted", status)
		}
	}
}
