package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func TestCostFrom(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 9/s, "
	c := mustParse(t, rule+"cost_from: {header: x-cost}, on_bad_cost: charge}]")
	if r := c.Policy.Rules[0]; r.CostFrom != (policy.CostSource{Header: "X-Cost"}) || r.OnBadCost != policy.BadCostCharge {
		t.Errorf("%+v", r)
	}
	if warnings := Warnings(c, plan(t, c)); !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.Contains(w, "cost_from: X-Cost is read from trusted proxies only, and there are none")
	}) {
		t.Errorf("no warning: %q", warnings)
	}
	const proxied = "upstream: http://127.0.0.1:3000\n"
	c = mustParse(t, proxied+rule+"cost_from: {response_header: x-cost, fractions: true}, on_bad_cost: deny}]")
	if r := c.Policy.Rules[0]; r.CostFrom != (policy.CostSource{ResponseHeader: "X-Cost", Fractions: true}) || !c.Policy.Limits()[0].Thousandths {
		t.Errorf("%+v", r)
	}
	if warnings := Warnings(c, plan(t, c)); !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.HasPrefix(w, "rule a: on_bad_cost has no effect with response_header")
	}) {
		t.Errorf("no warning: %q", warnings)
	}
	for text, want := range map[string]string{
		rule + "cost_from: {header: X Cost}}]":                          `f.yaml:1:50: rules[0].cost_from.header: "X Cost" is not the name of a header; want a header such as X-Cost`,
		rule + "cost_from: {response_header: X-Cost}}]":                 `f.yaml:1:59: rules[0].cost_from.response_header: needs upstream: a decision service sees no answer; add for example upstream: "http://127.0.0.1:3000", or write header instead`,
		proxied + rule + "cost_from: {response_header: X Cost}}]":       `f.yaml:2:59: rules[0].cost_from.response_header: "X Cost" is not the name of a header; want a header such as X-Cost`,
		proxied + rule + "cost_from: {response_header: date}}]":         `f.yaml:2:59: rules[0].cost_from.response_header: Date is of the answer itself, and clients do not get the header with the cost; want a header of its own such as X-Cost`,
		proxied + rule + "cost_from: {header: A, response_header: B}}]": `f.yaml:2:41: rules[0].cost_from: 2 of header and response_header are set; set one: write for example cost_from: {header: X-Cost}`,
		rule + "cost_from: {}}]":                                        `f.yaml:1:41: rules[0].cost_from: 0 of header and response_header are set; set one: write for example cost_from: {header: X-Cost}`,
		rule + "cost_from: X-Cost}]":                                    `f.yaml:1:41: rules[0].cost_from: found the text "X-Cost"; want a mapping such as {header: X-Cost}`,
		rule + "on_bad_cost: deny}]":                                    `f.yaml:1:43: rules[0].on_bad_cost: has no meaning without cost_from, which names the header with the cost; remove it, or add cost_from: {header: X-Cost}`,
		rule + "cost_from: {header: X-Cost}, on_bad_cost: ignore}]":     `f.yaml:1:72: rules[0].on_bad_cost: "ignore" is not a known value; write reject, deny or charge`,
	} {
		_, err := Parse("f.yaml", []byte(text), noEnv)
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got  %v\n want %s", text, err, want)
		}
	}
}

func TestRateFrom(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: a, rate: 9/s, "
	c := mustParse(t, rule+"rate_from: {header: x-limit, max: 100/m}}]")
	want := policy.RateSource{Header: "X-Limit", Max: fastlimit.Rate{N: 100, Per: time.Minute}}
	if r := c.Policy.Rules[0]; r.RateFrom != want || c.Limiter().Rules[0].MaxRate != want.Max {
		t.Errorf("%+v", r)
	}
	if warnings := Warnings(c, plan(t, c)); !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.Contains(w, "rate_from: X-Limit is read from trusted proxies only")
	}) {
		t.Errorf("no warning: %q", warnings)
	}
	for text, want := range map[string]string{
		rule + "rate_from: {header: X Limit, max: 1/s}}]":                             `f.yaml:1:50: rules[0].rate_from.header: "X Limit" is not the name of a header; want a header such as X-Limit`,
		rule + "rate_from: {header: X-Limit}}]":                                       `f.yaml:1:41: rules[0].rate_from.max: missing; write for example rate_from: {header: X-Limit, max: 1000/s}`,
		rule + "rate_from: {header: X-Limit, max: 2000000000/s}}]":                    `f.yaml:1:64: rules[0].rate_from.max: rate 2000000000/s is out of range; want 1/d to 1000000000/s`,
		rule + "algorithm: fixed_window, rate_from: {header: X-Limit, max: 2/s}}]":    `f.yaml:1:89: rules[0].rate_from.max: has no meaning with a fixed window, whose periods begin at fixed times; remove it, or choose leaky_bucket`,
		rule + "escalate_at: 0.5, rate_from: {header: X-Limit, max: 2/s}}]":           `f.yaml:1:43: rules[0].escalate_at: has no meaning with rate_from, with which every request is checked exactly; remove one of the two`,
		"rules: [{name: a, rate: 2017/s, rate_from: {header: X-Limit, max: 9000/s}}]": `f.yaml:1:25: rules[0].rate: has too many digits for a rule with rate_from; write a round number such as 2000/s`,
	} {
		_, err := Parse("f.yaml", []byte(text), noEnv)
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got  %v\n want %s", text, err, want)
		}
	}
}

// A fraction makes its rule one in thousandths, if that can be.
func TestFractionalCosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		cost        uint64
		thousandths bool
	}{
		"cost: 0.5": {500, true}, "cost: 1.0": {1, false}, "cost: 2": {2, false}, "cost: 2.125": {2125, true},
		"cost_from: {header: X-Cost, fractions: true}":            {1000, true},
		"cost: 2, cost_from: {header: X-Cost, fractions: true}":   {2000, true},
		"cost: 0.5, cost_from: {header: X-Cost, fractions: true}": {500, true},
		"cost_from: {header: X-Cost, fractions: false}":           {0, false},
	} {
		f, err := Parse("f.yaml", []byte("rules: [{name: a, rate: 100/s, "+text+"}]"), noEnv)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Policy.Limits()[0]; got.Cost != want.cost || got.Thousandths != want.thousandths {
			t.Errorf("%s: cost %d, thousandths %t", text, got.Cost, got.Thousandths)
		}
	}
	for text, want := range map[string]string{
		"rate: 100/s, cost: 0.0001":                      `rules[0].cost: "0.0001" is not a number of units with up to three decimals; write for example 1 or 0.5, at least 0.001`,
		"rate: 100/s, cost: 0.000":                       "rules[0].cost: 0.000 is too small; want at least 0.001",
		"rate: 100/s, cost: -0.5":                        "rules[0].cost: \"-0.5\" is not a number of units",
		"rate: 100/s, cost: \"0.5\"":                     "rules[0].cost: ",
		"rate: 100/s, cost: 100.001":                     "rules[0].cost: cost 100.001 is above burst 100: no request would ever be admitted; lower it, or raise burst",
		"rate: 100/s, algorithm: sliding_log, cost: 0.5": "rules[0].cost: a sliding log counts whole units; write a whole cost, or choose leaky_bucket",
		"rate: 100/s, algorithm: fixed_window, cost_from: {header: X-Cost, fractions: true}": "rules[0].cost_from.fractions: a fixed window counts whole units",
		"rate: 100/s, cost: 0.5, rate_from: {header: X-Limit, max: 1000/s}":                  "rules[0].cost: has no exact meaning with rate_from",
		"rate: 1/d, burst: 13343998, cost: 0.5":                                              "",
		"rate: 1000000/s, burst: 36028797018963968, cost: 0.5":                               "rules[0].burst: burst 36028797018963968 is too large to be counted in thousandths; want at most ",
		"rate: 100000000/s, cost: 0.5":                                                       "rules[0].rate: rate 100000000/s cannot be kept exactly with costs in thousandths; lower it, or write whole costs",
		"rate: 100/s, cost: 0.5, overrides: [{key: 192.0.2.7, rate: 100000000/s}]":           "cannot be kept exactly with costs in thousandths",
	} {
		_, err := Parse("f.yaml", []byte("rules: [{name: a, "+text+"}]"), noEnv)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
