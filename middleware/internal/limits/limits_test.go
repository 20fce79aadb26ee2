package limits

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// ask is a request of this test's own server.
type ask struct {
	client string
	from   policy.ClientSource
	cost   uint64
	noKey  bool
}

func clientOf(a ask, _ *policy.Identity) (netip.Addr, policy.ClientSource) {
	addr, _ := netip.ParseAddr(a.client)
	return addr, a.from
}

func mustSet(t testing.TB, unnamed policy.UnnamedAction, all ...Limit[ask]) *Set[ask] {
	t.Helper()
	s, err := New("test", all, 0, nil, clientOf, middlewaretest.Clients(t, "10.0.0.0/8", unnamed))
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
		by          *fastlimit.Rule
		left0, left int64
	}{
		{ask{client, policy.ClientFromPeer, 2, false}, true, rules[1], 2, 0},
		{ask{client, policy.ClientFromPeer, 1, false}, false, rules[1], 2, 0}, // the first is not charged
		{ask{client, policy.ClientFromPeer, 1, true}, true, rules[0], 1, 0},   // the second does not apply
		{ask{client, policy.ClientFromPeer, 0, false}, true, rules[0], 0, 0},  // nor does it at cost 0
		{ask{client, policy.ClientFromPeer, 0, false}, false, rules[0], 0, 0},
		{ask{"192.0.2.2", policy.ClientFromPeer, 3, false}, false, rules[1], 0, 0}, // above the burst
	} {
		o := s.Decide(t.Context(), c.ask)
		if o.Allowed != c.allowed || o.Rule != c.by || o.Answer == nil || o.Refused != policy.NotRefused {
			t.Errorf("request %d: %+v", i, o)
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
		o := s.Decide(t.Context(), ask{client: "192.0.2.1", from: policy.ClientFromPeer})
		if !o.Allowed || o.Rule != nil || o.Answer != nil || o.Refused != policy.NotRefused || o.Remaining != fastlimit.RemainingUnknown {
			t.Errorf("%+v", o)
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
		from    policy.ClientSource
		unnamed policy.UnnamedAction
		refused policy.Refusal
		charged int64
	}{
		{policy.ClientNoAddress, policy.UnnamedPeer, policy.RefusedPeer, 0},
		{policy.ClientFromPeer, policy.UnnamedDeny, policy.NotRefused, 1},
		{policy.ClientFromHeader, policy.UnnamedDeny, policy.NotRefused, 1},
		{policy.ClientUnnamed, policy.UnnamedPeer, policy.NotRefused, 1},
		{policy.ClientUnnamed, policy.UnnamedSkip, policy.NotRefused, 0},
		{policy.ClientUnnamed, policy.UnnamedDeny, policy.RefusedUnnamed, 0},
	} {
		rules := middlewaretest.Rules(t, 1, 1)
		s := mustSet(t, c.unnamed, Limit[ask]{Rule: rules[0]})
		o := s.Decide(t.Context(), ask{client: "10.0.0.1", from: c.from})
		if o.Refused != c.refused || o.Refused == policy.NotRefused && (!o.Allowed || (o.Rule == rules[0]) != (c.charged == 1)) {
			t.Errorf("%v, %v: %+v", c.from, c.unnamed, o)
		}
		if got := 1 - middlewaretest.Left(rules[0], "10.0.0.1"); got != c.charged {
			t.Errorf("%v, %v: charged %d", c.from, c.unnamed, got)
		}
		own := mustSet(t, c.unnamed, Limit[ask]{Rule: rules[1], Key: func(ask) (fastlimit.Key, bool) { return rules[1].BytesKey(), true }})
		if o := own.Decide(t.Context(), ask{from: c.from}); !o.Allowed || o.Refused != policy.NotRefused {
			t.Errorf("%v, %v: a rule with a key of its own: %+v", c.from, c.unnamed, o)
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
		"is listed twice":      {{Rule: rules[0]}, {Rule: rules[0]}},
		"257 Limits: want at":  make([]Limit[ask], limit.MaxRules+1),
	} {
		if _, err := New("test", all, 0, nil, clientOf, nil); err == nil || !strings.HasPrefix(err.Error(), "fastlimit/middleware/test: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, status := range []int{200, 399, 600} {
		if _, err := New("test", []Limit[ask]{{Rule: rules[0]}}, status, nil, clientOf, nil); err == nil {
			t.Errorf("status %d is accepted", status)
		}
	}
}
