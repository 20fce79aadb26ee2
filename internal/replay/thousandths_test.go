package replay

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// A log by a rule of cost 0.5: the replay decides as a limiter that is asked live, and as
// exact buckets with half a unit for each request, which have twice the rate and burst.
func TestFractionalCosts(t *testing.T) {
	t.Parallel()
	hits := generate(30_000, 17)
	half := rule("per-ip", "10/m", 20)
	half.Limit.Cost, half.Limit.Thousandths, half.Limit.Strict = 500, true, true
	settings := policy.Settings{Rules: []policy.RuleSpec{half}}
	r := mustRun(t, logOf(hits), config(settings))

	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(a.at, b.at) })
	clock := new(fastlimit.ManualClock)
	lim, err := fastlimit.New(fastlimit.Config{Rules: settings.Limits(), Memory: 4 << 20, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(lim, settings)
	if err != nil {
		t.Fatal(err)
	}
	live, s := map[string]int{}, new(policy.Scratch)
	for _, h := range hits {
		clock.Set(time.Duration(h.at-hits[0].at) * time.Second)
		q := policy.Request{Client: h.client}
		if !engine.Decide(t.Context(), &q, s).Decision.Allowed {
			live[engine.KeyText(lim.Rules()[0], &q).Text]++
		}
	}
	if len(r.Clients) != len(live) || len(live) < 5 {
		t.Errorf("replay denies %d clients, a limiter %d", len(r.Clients), len(live))
	}
	want := exactly(hits, 20, 40)
	for _, c := range r.Clients {
		if o := want[c.Key]; c.Denied != live[c.Key] || c.Denied != o.denied || c.ExactDenied != o.denied {
			t.Errorf("%+v, a limiter denies %d, exact buckets %d", c, live[c.Key], o.denied)
		}
	}
	half.Limit.Strict = false // by filter and sketch: their grace is one unit, of two requests, and θ·B
	settings.Rules[0] = half
	if rr := mustRun(t, logOf(hits), config(settings)).Rules[0]; rr.Excess > 0.5*20+1+1e-3 || rr.Excess < 5 || rr.ExcessBound < 11 {
		t.Errorf("excess %v of at most %v", rr.Excess, rr.ExcessBound)
	}
}
