package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// withPrefixes is a rule by address whose prefixes are clients too.
func withPrefixes(name string, burst uint64, p Prefixes) RuleSpec {
	return RuleSpec{Limit: ruleOf(name, burst), Key: key(byIP), Prefixes: p}
}

func TestExpanded(t *testing.T) {
	t.Parallel()
	first := withPrefixes("a", 5, Prefixes{V4: []int{24, 16}, V6: []int{56, 24}, Members: 10})
	first.Limit.MaxWait, first.Limit.Algorithm, first.Limit.OnFailure, first.Limit.Mode = time.Second, fastlimit.TokenBucket, fastlimit.FailClosed, fastlimit.Shadow
	first.Match = Match{Paths: []string{"/x"}}
	first.Overrides = []Override{{Key: []string{"192.0.2.7"}, Unlimited: true}}
	s := Settings{Rules: []RuleSpec{first, {Limit: ruleOf("b", 3), Key: key(byHost)}, withPrefixes("c", 0, Prefixes{V6: []int{48}})}}
	e := s.Expanded()
	var got []string
	for i, r := range e.Rules {
		c := r.Limit
		place, made := r.Origin()
		got = append(got, fmt.Sprintf("%s %v burst %d /%d/%d of %d %s", c.Name, c.Rate, c.Burst, c.IPv4Prefix, c.IPv6Prefix, place, r.Counted()))
		if made != (i >= len(s.Rules)) || !made && !reflect.DeepEqual(r, s.Rules[i]) {
			t.Errorf("rule %d: %+v", i, r)
		}
		if made && place == 0 && (c.MaxWait != 0 || c.Algorithm != fastlimit.TokenBucket || c.OnFailure != fastlimit.FailClosed || c.Mode != fastlimit.Shadow ||
			!reflect.DeepEqual(r.Match, first.Match) || !reflect.DeepEqual(r.Key, first.Key) || r.Overrides != nil || !r.Prefixes.None()) {
			t.Errorf("rule %s is not like the one that it is of: %+v", c.Name, r)
		}
	}
	want := []string{
		"a 1/h burst 5 /0/0 of -1 ", "b 1/h burst 3 /0/0 of -1 ", "c 1/h burst 0 /0/0 of -1 ",
		"a/24 10/h burst 50 /24/24 of 0 IPv4 and IPv6 /24", "a/16 10/h burst 50 /16/0 of 0 IPv4 /16", "a/56 10/h burst 50 /0/56 of 0 IPv6 /56",
		"c/48 16/h burst 0 /0/48 of 2 IPv6 /48",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if again := e.Expanded(); !reflect.DeepEqual(again, e) {
		t.Error("settings that are expanded change when they are expanded again")
	}
	if len(s.Rules) != 3 {
		t.Errorf("the settings themselves have %d rules", len(s.Rules))
	}
}

// chargedBy are the rules that a request of the client is charged by, with keys.
func chargedBy(t *testing.T, e *Engine, r *Request) []string {
	t.Helper()
	all := []string{}
	for _, c := range e.Applying(r, new(Scratch)) {
		name := c.Rule.Name()
		if (*engine.Rule)(c.Rule).Base() != (*engine.Rule)(c.Rule) {
			name += " at another rate"
		}
		all = append(all, fmt.Sprintf("%s %s x%d", name, e.KeyText(c.Rule, r).Text, c.Cost))
	}
	return all
}

func TestPrefixesAreCharged(t *testing.T) {
	t.Parallel()
	spec := withPrefixes("a", 4, Prefixes{V4: []int{24, 16}, V6: []int{56, 48, 24}})
	spec.Limit.Cost, spec.Limit.Rate = 2, hourly(4)
	spec.Overrides = []Override{
		{Key: []string{"10.0.0.0/8"}, Unlimited: true},
		{Key: []string{"192.0.2.8"}, Rate: hourly(5)},
		{Key: []string{"192.0.2.9"}, Burst: 5},
		{Key: []string{"192.0.2.10"}, Rate: hourly(3)},
		{Key: []string{"192.0.2.11"}, Rate: fastlimit.Rate{N: 4, Per: time.Minute}, Burst: 2},
	}
	rest := RuleSpec{Limit: ruleOf("b", 9), Key: key(byHost)}
	e := mustEngine(t, Settings{Rules: []RuleSpec{spec, rest}, Allow: prefixes("203.0.113.5/32"), Deny: prefixes("203.0.113.6/32")})
	b := "b example.com x1"
	for client, want := range map[string][]string{
		"192.0.2.1":          {"a 192.0.2.1 x2", "a/24 192.0.2.0/24 x2", "a/16 192.0.0.0/16 x2", b},
		"::ffff:192.0.2.1":   {"a 192.0.2.1 x2", "a/24 192.0.2.0/24 x2", "a/16 192.0.0.0/16 x2", b},
		"2001:db8:1:2:3:4::": {"a 2001:db8:1:2::/64 x2", "a/24 2001:d00::/24 x2", "a/56 2001:db8:1::/56 x2", "a/48 2001:db8:1::/48 x2", b},
		"10.1.2.3":           {b},                                                                                    // unlimited
		"192.0.2.8":          {"a at another rate 192.0.2.8 x2", b},                                                  // a higher rate
		"192.0.2.9":          {"a at another rate 192.0.2.9 x2", b},                                                  // a higher burst
		"192.0.2.11":         {"a at another rate 192.0.2.11 x2", b},                                                 // 4/m, of a lower burst
		"192.0.2.10":         {"a at another rate 192.0.2.10 x2", "a/24 192.0.2.0/24 x2", "a/16 192.0.0.0/16 x2", b}, // less
		"203.0.113.5":        {},
		"203.0.113.6":        {},
	} {
		if got := chargedBy(t, e, sampleRequest(client)); !slices.Equal(got, want) {
			t.Errorf("%s: charged\n%q\nwant\n%q", client, got, want)
		}
	}
	skipped := sampleRequest("192.0.2.1")
	skipped.SkipIPRules = true
	if got := chargedBy(t, e, skipped); !slices.Equal(got, []string{b}) {
		t.Errorf("without rules by address: charged %q", got)
	}
}

// What a trusted proxy names holds for the prefix too: its cost; and a client with a higher
// rate does not count there.
func TestPrefixesAndNamedCosts(t *testing.T) {
	t.Parallel()
	spec := withPrefixes("a", 10, Prefixes{V4: []int{24}})
	spec.CostFrom, spec.RateFrom = CostSource{Header: "X-Cost"}, RateSource{Header: "X-Rate", Max: hourly(1000)}
	spec.Limit.Rate = hourly(10)
	e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
	for _, tt := range []struct {
		cost, rate string
		want       []string
	}{
		{"", "", []string{"a 192.0.2.1 x1", "a/24 192.0.2.0/24 x1"}},
		{"3", "", []string{"a 192.0.2.1 x3", "a/24 192.0.2.0/24 x3"}},
		{"3", "5/h", []string{"a at another rate 192.0.2.1 x3", "a/24 192.0.2.0/24 x3"}},
		{"3", "11/h", []string{"a at another rate 192.0.2.1 x3"}},
	} {
		r := sampleRequest("192.0.2.1")
		fields := fieldMap{}
		if tt.cost != "" {
			fields["X-Cost"] = tt.cost
		}
		if tt.rate != "" {
			fields["X-Rate"] = tt.rate
		}
		r.Fields, r.Trusted = fields, true
		if got := chargedBy(t, e, r); !slices.Equal(got, tt.want) {
			t.Errorf("cost %q, rate %q: charged %q, want %q", tt.cost, tt.rate, got, tt.want)
		}
	}
}

// Costs that answers name are settled with the prefix, too.
func TestPrefixesOwe(t *testing.T) {
	t.Parallel()
	spec := withPrefixes("a", 4, Prefixes{V4: []int{24}, Members: 2})
	spec.CostFrom = CostSource{ResponseHeader: "X-Cost"}
	e := mustEngine(t, Settings{Rules: []RuleSpec{spec}})
	var s Scratch
	var o Owed
	if v := e.Decide(t.Context(), sampleRequest("192.0.2.1"), &s); !v.Decision.Allowed {
		t.Fatalf("%+v", v)
	}
	e.Owe(&o, &s, 0)
	o.Settle(t.Context(), fieldMap{"X-Cost": "4"})
	if got, _ := admits(e, sampleRequest("192.0.2.2")); got != 4 { // of 8, of which 4 are taken
		t.Errorf("%d admitted to a neighbour, want 4", got)
	}
	if got, _ := admits(e, sampleRequest("192.0.2.3")); got != 0 {
		t.Errorf("%d admitted to another, want 0", got)
	}
}

// A live override of the rule that a prefix is counted by is one of the prefix; one of the
// rule itself takes its clients out of theirs.
func TestLiveOverridesOfPrefixes(t *testing.T) {
	t.Parallel()
	raw := Settings{Rules: []RuleSpec{withPrefixes("a", 2, Prefixes{V4: []int{24}, Members: 2})}}
	s := raw.Expanded()
	e := mustEngine(t, s)
	next, err := e.WithLive(&s, []LiveOverride{{Rule: 1, Key: []string{"192.0.2.0/24"}}, {Rule: 0, Key: []string{"192.0.4.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for client, want := range map[string]int{"192.0.2.1": 1, "192.0.3.1": 2, "192.0.4.1": 0, "192.0.4.2": 2} {
		if got := chargedBy(t, next, sampleRequest(client)); len(got) != want {
			t.Errorf("%s: charged %q, want by %d rules", client, got, want)
		}
		if got := chargedBy(t, e, sampleRequest(client)); len(got) != 2 {
			t.Errorf("%s before the change: charged %q", client, got)
		}
	}
}

func TestPrefixKeysFromText(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{withPrefixes("a", 2, Prefixes{V4: []int{24}, V6: []int{48}})}})
	v4, v6 := e.rules[1].limit, e.rules[2].limit
	for _, tt := range []struct {
		rule      *fastlimit.Rule
		key, want string
	}{
		{v4, "192.0.2.7", ""},
		{v4, "192.0.2.0/24", ""},
		{v6, "2001:db8::1", ""},
		{v6, "2001:db8::/48", ""},
		{v4, "2001:db8::1", `fastlimit/policy: rule "a/24": key "2001:db8::1": the rule counts prefixes of IPv4 clients only`},
		{v6, "192.0.2.7", `the rule counts prefixes of IPv6 clients only`},
	} {
		key, err := e.KeyFromText(tt.rule, []string{tt.key})
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s of %s: %v, want %s", tt.key, tt.rule.Name(), err, tt.want)
			}
			continue
		}
		addr, _, _ := strings.Cut(tt.key, "/")
		if err != nil || key.Digest() != tt.rule.AddrKey(netip.MustParseAddr(addr)).Digest() {
			t.Errorf("%s of %s: %v, %v", tt.key, tt.rule.Name(), key, err)
		}
	}
}

func TestCheckPrefixes(t *testing.T) {
	t.Parallel()
	composite := withPrefixes("a", 1, Prefixes{V4: []int{24}})
	composite.Key = key(byIP, byPath)
	grouped := withPrefixes("a", 1, Prefixes{V4: []int{24}, V6: []int{48}})
	grouped.Limit.IPv4Prefix, grouped.Limit.IPv6Prefix = 24, 56
	for _, tt := range []struct {
		spec RuleSpec
		want []string
	}{
		{withPrefixes("a", 1, Prefixes{}), nil},
		{withPrefixes("a", 1, Prefixes{V4: []int{1, 31}, V6: []int{1, 63}, Members: 65536}), nil},
		{withPrefixes("a", 1, Prefixes{V6: []int{48}, Members: 2}), nil},
		{withPrefixes("a", 1, Prefixes{Members: 3}), []string{"Prefixes: has no prefix length"}},
		{withPrefixes("a", 1, Prefixes{V4: []int{24}, Members: 1}), []string{"Prefixes.Members: 1 is out of range"}},
		{withPrefixes("a", 1, Prefixes{V4: []int{24}, Members: 65537}), []string{"Prefixes.Members: 65537 is out of range"}},
		{withPrefixes("a", 1, Prefixes{V4: []int{0, 32, 24, 24}, V6: []int{64}}), []string{"Prefixes.V4[0]: /0 does", "Prefixes.V4[1]: /32 does", "Prefixes.V4[3]: /24 is there twice", "Prefixes.V6[0]: /64 does"}},
		{composite, []string{"Prefixes: is for rules whose key is ip alone"}},
		{grouped, []string{"Prefixes.V4[0]: /24 does not contain several clients of the rule, which are /24 each"}},
	} {
		errs := tt.spec.CheckPrefixes()
		if len(errs) != len(tt.want) {
			t.Errorf("%+v: %v, want %q", tt.spec.Prefixes, errs, tt.want)
			continue
		}
		for i, err := range errs {
			if !strings.Contains(err.Error(), tt.want[i]) {
				t.Errorf("%+v: %v, want %s", tt.spec.Prefixes, err, tt.want[i])
			}
		}
		if s := (Settings{Rules: []RuleSpec{tt.spec}}); len(tt.want) > 0 && !strings.Contains(tt.want[0], "twice") {
			if _, err := New(mustLimiter(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 1)}}}), s); err == nil {
				t.Errorf("%+v: New takes it", tt.spec.Prefixes)
			}
		}
	}
}

func TestPrefixesDoNotAllocate(t *testing.T) { // not parallel, as the others
	e := mustEngine(t, Settings{Rules: []RuleSpec{withPrefixes("a", 2, Prefixes{V4: []int{24}, V6: []int{56, 48}})}})
	for _, client := range []string{"192.0.2.1", "2001:db8::1"} {
		r, ctx := liveRequest(client), t.Context()
		var s Scratch
		wantNoAllocs(t, client, func() { e.Decide(ctx, r, &s) })
	}
}
