package policy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/field"
)

// ratedSettings is a rule by address, 1/s and burst 4, that has rates up to 20/s from X-Limit.
func ratedSettings() Settings {
	c := RuleSpec{Limit: ruleOf("rated", 4), Key: key(byIP), RateFrom: RateSource{Header: "x-limit", Max: fastlimit.Rate{N: 20, Per: time.Second}}}
	c.Overrides = []Override{{Key: []string{"192.0.2.9"}, Rate: hourly(2)}, {Key: []string{"192.0.2.8"}, Unlimited: true}}
	return Settings{Rules: []RuleSpec{c}, TrustedProxies: prefixes("10.0.0.0/8")}
}

// A rate counts from trusted proxies only, once, within its bounds, and for clients
// without an override.
func TestRateFrom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, peer, client string
		values             []string
		burst              uint64
		bad                uint64
	}{
		{"named", "10.0.0.1", "192.0.2.1", []string{"7/m"}, 7, 0},
		{"the bound", "10.0.0.1", "192.0.2.1", []string{"1000000000/s"}, 20, 0},
		{"none", "10.0.0.1", "192.0.2.1", nil, 4, 0},
		{"a stranger", "192.0.2.1", "192.0.2.1", []string{"7/m"}, 4, 0},
		{"an override", "10.0.0.1", "192.0.2.9", []string{"7/m"}, 2, 0},
		{"an override and a bad rate", "10.0.0.1", "192.0.2.9", []string{"x"}, 2, 0},
		{"twice", "10.0.0.1", "192.0.2.1", []string{"7/m", "7/m"}, 4, 1},
		{"empty", "10.0.0.1", "192.0.2.1", []string{""}, 4, 1},
		{"zero", "10.0.0.1", "192.0.2.1", []string{"0/s"}, 4, 1},
		{"negative", "10.0.0.1", "192.0.2.1", []string{"-5/s"}, 4, 1},
		{"a number", "10.0.0.1", "192.0.2.1", []string{"5"}, 4, 1},
		{"a list", "10.0.0.1", "192.0.2.1", []string{"5/s, 6/s"}, 4, 1},
		{"long", "10.0.0.1", "192.0.2.1", []string{"00000000000000000000000000000000000000005/s"}, 4, 1},
	} {
		s := ratedSettings()
		e := mustEngine(t, s)
		w := wire{"X-Forwarded-For": {tt.client}}
		if tt.values != nil {
			w["X-Limit"] = tt.values
		}
		v, charges := ask(t, e, s, tt.peer, w)
		if !v.Decision.Allowed || len(charges) != 1 || charges[0].Rule.Config().Burst != tt.burst || (*engine.Rule)(charges[0].Rule).Base() != (*engine.Rule)(e.rules[0].limit) {
			t.Errorf("%s: %+v, charged %+v, want burst %d", tt.name, v, charges, tt.burst)
		}
		if n := e.rules[0].limit.Stats().BadRates; n != tt.bad {
			t.Errorf("%s: %d bad rates, want %d", tt.name, n, tt.bad)
		}
	}
}

// A cost is held against the burst of the rate that is named.
func TestCostAtNamedRate(t *testing.T) {
	t.Parallel()
	s := ratedSettings()
	s.Rules[0].CostFrom.Header = "X-Cost"
	e := mustEngine(t, s)
	for _, tt := range []struct {
		rate, cost string
		want       Refusal
	}{{"10/s", "10", NotRefused}, {"10/s", "11", RefusedCost}, {"2/s", "3", RefusedCost}} {
		v, _ := ask(t, e, s, "10.0.0.1", wire{"X-Forwarded-For": {"198.51.100." + tt.cost}, "X-Limit": {tt.rate}, "X-Cost": {tt.cost}})
		if v.Refused != tt.want {
			t.Errorf("%s at %s: %+v", tt.cost, tt.rate, v)
		}
	}
}

func TestRateMistakes(t *testing.T) {
	t.Parallel()
	for want, from := range map[string]RateSource{
		"RateFrom.Header": {Header: "X Limit", Max: fastlimit.Rate{N: 20, Per: time.Second}},
		"RateFrom.Max":    {Header: "X-Limit"},
	} {
		s := Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 5), Key: key(byIP), RateFrom: from}}}
		_, err := New(mustLimiter(t, s), s)
		if e := field.All(err); len(e) != 1 || e[0].Field != want || e[0].Rule != "a" || e[0].Fix == "" {
			t.Errorf("%v, want one error about %s", err, want)
		}
	}
}

func TestNamedRatesDoNotAllocate(t *testing.T) { // not parallel, as the others
	e := mustEngine(t, ratedSettings())
	r, ctx := liveRequest("192.0.2.1"), t.Context()
	r.Client = netip.MustParseAddr("192.0.2.1")
	r.Trusted, r.Fields = true, &constFields{header: instances("7/m")}
	var s Scratch
	e.Decide(ctx, r, &s)
	wantNoAllocs(t, "a named rate", func() { e.Decide(ctx, r, &s) })
}
