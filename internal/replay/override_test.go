package replay

import (
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Replay judges clients with another limit by theirs, and its oracle too.
func TestOverridesAreJudged(t *testing.T) {
	t.Parallel()
	at := stamp + ` "GET / HTTP/1.1" 200 1 "-" "curl"`
	log := repeat(9, "192.0.2.7 - - "+at) + repeat(9, "192.0.2.8 - - "+at) + repeat(9, "10.0.0.1 - - "+at) + repeat(9, "10.1.0.1 - - "+at)
	spec := rule("a", "1/h", 2)
	spec.Limit.Strict = true
	spec.Overrides = []policy.Override{
		{Key: []string{"192.0.2.8"}, Burst: 5},
		{Key: []string{"10.0.0.0/8"}, Unlimited: true},
		{Key: []string{"10.1.0.0/16"}, Rate: fastlimit.Rate{N: 1, Per: spec.Limit.Rate.Per}},
	}
	r := mustRun(t, log, config(policy.Settings{Rules: []policy.RuleSpec{spec}}))
	denied := map[string]int{}
	for _, c := range r.Clients {
		if !c.OverLimit || c.ExactDenied != c.Denied {
			t.Errorf("%+v", c)
		}
		denied[c.Key] = c.Denied
	}
	if len(denied) != 3 || denied["192.0.2.7"] != 7 || denied["192.0.2.8"] != 4 || denied["10.1.0.1"] != 8 || r.Allowed != 17 {
		t.Errorf("denied %v, allowed %d", denied, r.Allowed)
	}
}
