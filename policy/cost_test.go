package policy

import (
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/field"
	"pgregory.net/rapid"
)

// costed is a rule by address of burst 10 that has its cost, 2, from X-Cost, before and
// after one that has not.
func costed(on BadCost) Settings {
	c := RuleSpec{Limit: ruleOf("costed", 10), Key: key(byIP), CostFrom: CostSource{Header: "x-cost"}, OnBadCost: on}
	c.Limit.Cost = 2
	return Settings{
		Rules:          []RuleSpec{{Limit: ruleOf("before", 20), Key: key(byIP)}, c, {Limit: ruleOf("after", 20), Key: key(byIP)}},
		TrustedProxies: prefixes("10.0.0.0/8"),
	}
}

// ask assembles and decides a request for a client with these costs.
func ask(t *testing.T, e *Engine, s Settings, peer string, w wire) (Verdict, []fastlimit.Charge) {
	t.Helper()
	id, err := NewIdentity(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := w["X-Forwarded-For"]; !ok {
		w["X-Forwarded-For"] = []string{"192.0.2.1"}
	}
	var sc Scratch
	var r Request
	a := e.Assemble(id, &Incoming{Peer: netip.MustParseAddr(peer), Method: []byte("GET"), Target: []byte("/"), Host: []byte("a"), Fields: w}, &sc, &r)
	if a.Refused != NotRefused {
		t.Fatalf("refused: %v", a.Refused)
	}
	v := e.Decide(t.Context(), &r, &sc)
	return v, append([]fastlimit.Charge(nil), sc.Applied()...)
}

// remaining is what a rule has left for the client.
func remaining(e *Engine, rule int, client string) int64 {
	r := e.rules[rule].limit
	return r.Peek(r.AddrKey(netip.MustParseAddr(client)), 1).Remaining
}

func TestCostFrom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, peer string
		headers    wire
		want       int64 // taken by the rule
	}{
		{"named", "10.0.0.1", wire{"X-Cost": {"7"}}, 7},
		{"the whole burst", "10.0.0.1", wire{"X-Cost": {"10"}}, 10},
		{"leading zeros", "10.0.0.1", wire{"X-Cost": {"0003"}}, 3},
		{"none", "10.0.0.1", wire{}, 2},
		{"a stranger", "192.0.2.1", wire{"X-Cost": {"1"}}, 2},
		{"a stranger's bad cost", "192.0.2.1", wire{"X-Cost": {"-1", "x"}}, 2},
		{"an alias", "10.0.0.1", wire{"X_Cost": {"1"}}, 2},
	} {
		s := costed(BadCostReject)
		e := mustEngine(t, s)
		v, _ := ask(t, e, s, tt.peer, tt.headers)
		if !v.Decision.Allowed || v.Refused != NotRefused {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if got := 10 - remaining(e, 1, "192.0.2.1"); got != tt.want {
			t.Errorf("%s: the rule has taken %d, want %d", tt.name, got, tt.want)
		}
		if a, b := remaining(e, 0, "192.0.2.1"), remaining(e, 2, "192.0.2.1"); a != 19 || b != 19 {
			t.Errorf("%s: the others have %d and %d left", tt.name, a, b)
		}
		if n := e.rules[1].limit.Stats().BadCosts; n != 0 {
			t.Errorf("%s: %d bad costs", tt.name, n)
		}
	}
}

var badCosts = map[string][]string{
	"empty": {""}, "zero": {"0"}, "negative": {"-1"}, "signed": {"+1"}, "fraction": {"1.5"}, "exponent": {"1e1"}, "text": {"ten"}, "list": {"1, 2"},
	"blanks": {" 1"}, "above the burst": {"11"}, "2^64 and one": {"18446744073709551617"}, "20 digits": {"00000000000000000001"},
	"twice the same": {"1", "1"}, "two": {"1", "2"}, "hexadecimal": {"0x1"}, "Arabic digits": {"\u0661"},
}

// Nobody pays for a bad cost unless the rule is to charge it.
func TestBadCosts(t *testing.T) {
	t.Parallel()
	for name, values := range badCosts {
		for on, want := range map[BadCost][3]int64{BadCostReject: {20, 10, 20}, BadCostDeny: {20, 10, 20}, BadCostCharge: {19, 8, 19}} {
			s := costed(on)
			e := mustEngine(t, s)
			v, charges := ask(t, e, s, "10.0.0.1", wire{"X-Cost": values})
			what := name + ", " + on.String()
			if got := [3]int64{remaining(e, 0, "192.0.2.1"), remaining(e, 1, "192.0.2.1"), remaining(e, 2, "192.0.2.1")}; got != want {
				t.Errorf("%s: the rules have %v left, want %v", what, got, want)
			}
			limit := e.rules[1].limit
			if n := limit.Stats().BadCosts; n != 1 {
				t.Errorf("%s: %d bad costs", what, n)
			}
			switch {
			case on == BadCostReject && (v.Refused != RefusedCost || v.Rule != limit || v.Decision.Allowed || len(charges) != 0 || v.Decision.Remaining != -1),
				on == BadCostDeny && (v.Refused != NotRefused || v.Decision.Allowed || v.Rule != limit || v.Decision.Stage != fastlimit.StageTable),
				on == BadCostCharge && (v.Refused != NotRefused || !v.Decision.Allowed):
				t.Errorf("%s: %+v", what, v)
			}
		}
	}
}

// A rule in shadow mode refuses and denies nobody.
func TestBadCostsOfShadows(t *testing.T) {
	t.Parallel()
	for _, on := range []BadCost{BadCostReject, BadCostDeny, BadCostCharge} {
		s := costed(on)
		s.Rules[1].Limit.Mode = fastlimit.Shadow
		e := mustEngine(t, s)
		v, _ := ask(t, e, s, "10.0.0.1", wire{"X-Cost": {"x"}})
		if !v.Decision.Allowed || v.Refused != NotRefused || e.rules[1].limit.Stats().BadCosts != 1 {
			t.Errorf("%v: %+v", on, v)
		}
	}
}

// The burst that a cost is held against is the client's own, and a client without limit
// has no bad costs.
func TestCostsOfOverrides(t *testing.T) {
	t.Parallel()
	s := costed(BadCostReject)
	s.Rules[1].Overrides = []Override{{Key: []string{"192.0.2.1"}, Burst: 30}, {Key: []string{"192.0.2.2"}, Burst: 3}, {Key: []string{"192.0.2.3"}, Unlimited: true}}
	e := mustEngine(t, s)
	for client, want := range map[string]map[string]Refusal{
		"192.0.2.1": {"20": NotRefused, "31": RefusedCost}, "192.0.2.2": {"3": NotRefused, "4": RefusedCost}, "192.0.2.3": {"x": NotRefused}, "192.0.2.4": {"10": NotRefused, "11": RefusedCost},
	} {
		for cost, refused := range want {
			v, _ := ask(t, e, s, "10.0.0.1", wire{"X-Cost": {cost}, "X-Forwarded-For": {client}})
			if v.Refused != refused || v.Decision.Allowed == (refused != NotRefused) {
				t.Errorf("%s at %s: %+v", client, cost, v)
			}
		}
	}
	if n := e.rules[1].limit.Stats().BadCosts; n != 3 {
		t.Errorf("%d bad costs, want 3", n)
	}
}

// ParseCost takes what an arbitrarily large integer of digits says, if it fits.
func TestParseCost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[0-9]{0,22}`), rapid.StringMatching(`[-+ .,e0-9]{0,6}`), rapid.Map(rapid.Uint64(), func(n uint64) string { return strconv.FormatUint(n, 10) })).Draw(t, "text")
		n, ok := ParseCost([]byte(text), 1)
		want, isNumber := new(big.Int).SetString(text, 10)
		good := isNumber && strings.Trim(text, "0123456789") == "" && len(text) <= 19 && want.Sign() > 0
		if ok != good || ok && n != want.Uint64() {
			t.Fatalf("%q: %d, %t", text, n, ok)
		}
	})
}

func TestCostMistakes(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]RuleSpec{
		"CostFrom":                {CostFrom: CostSource{Header: "X-Cost", ResponseHeader: "X-Cost"}},
		"CostFrom.ResponseHeader": {CostFrom: CostSource{ResponseHeader: "content-length"}},
		"CostFrom.Header":         {CostFrom: CostSource{Header: "X Cost"}},
		"CostFrom.Fractions":      {CostFrom: CostSource{Fractions: true}},
		"OnBadCost":               {OnBadCost: BadCostDeny},
	} {
		spec.Limit, spec.Key = ruleOf("a", 5), key(byIP)
		s := Settings{Rules: []RuleSpec{spec}}
		_, err := New(mustLimiter(t, s), s)
		if e := field.All(err); len(e) != 1 || e[0].Field != want || e[0].Rule != "a" || e[0].Fix == "" {
			t.Errorf("%v, want one error about %s", err, want)
		}
	}
}

func TestNamedCostsDoNotAllocate(t *testing.T) { // not parallel, as the others
	for _, on := range []BadCost{BadCostReject, BadCostDeny, BadCostCharge} {
		e := mustEngine(t, costed(on))
		for _, cost := range []string{"1", "x", "99999999999999999999"} {
			r, ctx := liveRequest("192.0.2.1"), t.Context()
			r.Trusted, r.Fields = true, &constFields{header: instances(cost)}
			var s Scratch
			e.Decide(ctx, r, &s)
			wantNoAllocs(t, on.String()+" "+cost, func() { e.Decide(ctx, r, &s) })
		}
	}
}

// A rule whose costs come with fractions counts the header and its own cost in thousandths.
func TestFractionsFrom(t *testing.T) {
	t.Parallel()
	for cost, want := range map[string]uint64{"0.5": 500, "1.250": 1250, "0.001": 1, "10": 10_000, "10.0": 10_000, "": 2000} {
		s := costed(BadCostReject)
		s.Rules[1].CostFrom.Fractions = true
		e := mustEngine(t, s)
		headers := wire{"X-Cost": {cost}}
		if cost == "" {
			headers = wire{}
		}
		v, charges := ask(t, e, s, "10.0.0.1", headers)
		if !v.Decision.Allowed || len(charges) != 3 || charges[1].Cost != want || charges[0].Cost != 1 {
			t.Errorf("%q: %+v, %+v, want %d thousandths", cost, v, charges, want)
		}
	}
	for _, cost := range []string{"0.0001", "0.0", ".5", "5.", "1e0", "-0.5", "10.001", "0,5", "1.2.3", "18446744073709551.616"} {
		for _, on := range []BadCost{BadCostReject, BadCostDeny} {
			s := costed(on)
			s.Rules[1].CostFrom.Fractions = true
			v, _ := ask(t, mustEngine(t, s), s, "10.0.0.1", wire{"X-Cost": {cost}})
			if v.Decision.Allowed || (v.Refused == RefusedCost) != (on == BadCostReject) {
				t.Errorf("%q, %v: %+v", cost, on, v)
			}
		}
	}
}
