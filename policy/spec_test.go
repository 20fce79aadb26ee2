package policy

import (
	"fmt"
	"strings"
	"testing"
)

// A limiter of other rules than the settings' own is a mistake of the caller.
func TestLimitsAreThoseOfTheRules(t *testing.T) {
	t.Parallel()
	s := Settings{Rules: []RuleSpec{
		{Limit: ruleOf("a", 1), Key: key(byIP)},
		{Limit: ruleOf("b", 2), Key: key(byIP, KeyPart{KeyHeader, "X-User"}), Match: Match{Paths: []string{"/b", "/a"}, Methods: []string{"GET"}}},
	}}
	limits := s.Limits()
	if limits[0].Name != "a" || limits[0].KeyKind != `key "ip"` || limits[1].Burst != 2 ||
		limits[1].KeyKind != `key "ip","header:X-User" path "/a","/b" method "GET"` || s.Rules[0].Limit.KeyKind != "" {
		t.Errorf("limits %+v of %+v", limits, s.Rules)
	}
	if _, err := New(mustLimiter(t, s), s); err != nil {
		t.Error(err)
	}
	other := Settings{Rules: []RuleSpec{s.Rules[1], s.Rules[0]}}
	if _, err := New(mustLimiter(t, other), s); err == nil || !strings.Contains(err.Error(), `the limiter has "b" in its place`) {
		t.Errorf("rules in another order: %v", err)
	}
}

// The names of settings are those of the configuration file, and no value lacks one.
func TestNames(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]fmt.Stringer{
		"ip header cookie method host path global unknown 7": {
			KeyIP, KeyHeader, KeyCookie, KeyMethod, KeyHost, KeyPath, KeyGlobal, KeyGlobal + 1,
		},
		"none x-original x-forwarded unknown 3": {OriginalNone, OriginalXOriginal, OriginalXForwarded, OriginalXForwarded + 1},
		"peer skip deny unknown 3":              {UnnamedPeer, UnnamedSkip, UnnamedDeny, UnnamedDeny + 1},
		"none allow deny ban unknown 4":         {ListNone, ListAllow, ListDeny, ListBan, ListBan + 1},
		"none peer target unnamed host repeated cost unknown 7": {
			NotRefused, RefusedPeer, RefusedTarget, RefusedUnnamed, RefusedHost, RefusedRepeated, RefusedCost, RefusedCost + 1,
		},
		"reject deny charge unknown 3":                       {BadCostReject, BadCostDeny, BadCostCharge, BadCostCharge + 1},
		"no address from peer from header unnamed unknown 4": {ClientNoAddress, ClientFromPeer, ClientFromHeader, ClientUnnamed, ClientUnnamed + 1},
	} {
		var got []string
		for _, v := range all {
			got = append(got, v.String())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}
