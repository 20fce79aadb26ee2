package policy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// DenyAt denies what is known, as Decide does, and else it counts nothing and takes nothing.
func TestDenyAt(t *testing.T) {
	t.Parallel()
	s := Settings{
		Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")},
		Rules: []RuleSpec{
			{Limit: ruleOf("a", 2), Key: key(byIP), Overrides: []Override{{Key: []string{"10.0.0.0/8"}, Unlimited: true}}},
			{Limit: ruleOf("shadow", 1), Key: key(byIP)},
		},
	}
	s.Rules[1].Limit.Mode = fastlimit.Shadow
	e := mustEngine(t, s).WithBans((*Bans)(nil).With(netip.MustParsePrefix("192.0.2.8/32"), time.Now().Add(time.Hour)))
	var scratch Scratch
	for client, limit := range map[string]int{"192.0.2.1": 9, "192.0.2.9": 0, "192.0.2.8": 0, "10.1.1.1": 9, "203.0.113.5": 2} {
		r := &Request{Client: netip.MustParseAddr(client)}
		for n := range 4 {
			before := statsOf(e)
			now, denied := e.DenyAt(r, &scratch, time.Time{})
			if denied != (n >= limit) {
				t.Fatalf("%s, request %d: denied %v", client, n, denied)
			}
			if !denied {
				if now != (Verdict{}) || statsOf(e) != before {
					t.Errorf("%s, request %d: %+v, and the counts have changed", client, n, now)
				}
			}
			then := e.Decide(t.Context(), r, &scratch)
			if denied && (then.List != now.List || then.Rule != now.Rule || then.Decision.Stage != now.Decision.Stage) || then.Decision.Allowed == denied {
				t.Errorf("%s, request %d: %+v, then %+v", client, n, now, then)
			}
		}
	}
}

// statsOf are all counts of an engine's rules.
func statsOf(e *Engine) (all [2][2]uint64) {
	for i, r := range e.lim.Rules() {
		s := r.Stats()
		for stage := range s.Allowed {
			all[i][0] += s.Allowed[stage]
			all[i][1] += s.Denied[stage]
		}
	}
	return all
}
