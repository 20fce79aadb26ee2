package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// everyKind has lists, overrides, prefixes, bans, costs, shadow rules and all algorithms.
func everyKind(rng *rand.Rand) Settings {
	rate := func(n uint64) fastlimit.Rate { return fastlimit.Rate{N: n, Per: time.Second} }
	algorithm := func() fastlimit.Algorithm { return fastlimit.Algorithm(rng.IntN(5)) }
	return Settings{
		Allow: prefixes("192.0.2.5/32"), Deny: prefixes("192.0.2.6/32", "198.51.100.16/28"),
		Rules: []RuleSpec{
			{
				Limit: fastlimit.RuleConfig{Name: "per-ip", Rate: rate(4), Burst: 8}, Key: key(byIP), CostFrom: CostSource{Header: "X-Cost"},
				Overrides: []Override{{Key: []string{"192.0.2.1"}, Unlimited: true}, {Key: []string{"192.0.2.2"}, Rate: rate(1)}},
				Prefixes:  Prefixes{V4: []int{24}, Members: 2},
			},
			{Limit: fastlimit.RuleConfig{Name: "window", Algorithm: algorithm(), Rate: rate(5)}, Key: key(byIP), Match: Match{Methods: []string{"POST"}}},
			{Limit: fastlimit.RuleConfig{Name: "api", Rate: rate(3), Mode: fastlimit.Shadow, Algorithm: algorithm()}, Key: key(byHeader)},
			{Limit: fastlimit.RuleConfig{Name: "login", Rate: rate(2), Burst: 3, Strict: true}, Key: key(byIP, KeyPart{Kind: KeyPath}), Match: Match{Paths: []string{"/login*"}}},
			{Limit: fastlimit.RuleConfig{Name: "ban", Rate: rate(6), Burst: 6, Ban: fastlimit.BanPolicy{After: 4, Within: 10 * time.Second, For: 2 * time.Second}}, Key: key(byIP)},
			{Limit: fastlimit.RuleConfig{Name: "wide", Rate: rate(2), Burst: 12}, Key: key(byIP)},
		},
	}
}

func randomRequest(rng *rand.Rand) *Request {
	client := fmt.Sprintf("192.0.2.%d", rng.IntN(10))
	if rng.IntN(8) == 0 {
		client = fmt.Sprintf("198.51.100.%d", 14+rng.IntN(4))
	}
	r := sampleRequest(client)
	r.Trusted = rng.IntN(3) == 0
	fields := fieldMap{"X-Cost": fmt.Sprint(1 + rng.IntN(3))}
	if rng.IntN(2) == 0 {
		fields["X-Api-Key"] = fmt.Sprint("k", rng.IntN(3))
	}
	if rng.IntN(2) == 0 {
		r.Method = []byte("POST")
	}
	if rng.IntN(3) == 0 {
		r.Path = fmt.Appendf(nil, "/a%d", rng.IntN(2))
	}
	r.Fields = fields
	return r
}

// TestForeseeIsTrue: what is foreseen of a request is what it gets.
func TestForeseeIsTrue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testkit.Size(4, 40)) {
		rng := rand.New(rand.NewPCG(seed, 51))
		s := everyKind(rng)
		var clock fastlimit.ManualClock
		lim, err := fastlimit.New(fastlimit.Config{Rules: s.Limits(), Memory: 8 << 20, Clock: &clock})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(lim, s)
		if err != nil {
			t.Fatal(err)
		}
		far := time.Now().Add(time.Hour)
		e = e.WithBans((*Bans)(nil).With(netip.MustParsePrefix("192.0.2.8/32"), far).With(netip.MustParsePrefix("198.51.100.0/24"), far))
		var foreseen, real Scratch
		now, seen := time.Duration(0), map[string]int{}
		for i := range 5000 {
			now += time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
			clock.Set(now)
			lim.Advance() // else the request does, after it is foreseen
			r := randomRequest(rng)
			f := e.ForeseeRequest(r, &foreseen, time.Now())
			v := e.Decide(t.Context(), r, &real)
			if err := f.differs(&v); err != nil {
				t.Fatalf("seed %d, request %d of %v: %v\nforeseen %+v\nis %+v", seed, i, r.Client, err, f, v)
			}
			seen[fmt.Sprint(v.Decision.Stage, v.Decision.Allowed)]++
		}
		for _, want := range []string{"list true", "list false", "ban false", "table false", "exact true", "filter true", "sketch true"} {
			if seen[want] == 0 {
				t.Errorf("seed %d: nothing was decided as %q: %v", seed, want, seen)
			}
		}
	}
}

// differs says how a verdict is another one than was foreseen.
func (f *ForeseenRequest) differs(v *Verdict) error {
	if f.List != v.List {
		return fmt.Errorf("list %v", v.List)
	}
	if f.Refused != nil || v.Refused != NotRefused {
		if f.Refused != v.Rule || v.Refused != RefusedCost {
			return fmt.Errorf("refused by %v", f.Refused)
		}
		return nil
	}
	allowed := f.List == ListNone || f.List == ListAllow
	found := v.Rule == nil
	for i := range f.Rules {
		r := &f.Rules[i]
		allowed = allowed && r.Allowed()
		if v.Rule == nil || v.Rule != r.Limit {
			continue
		}
		found = true
		d, is := r.Decision, v.Decision
		if d.Stage != is.Stage && is.Stage != fastlimit.StageBan || !is.Allowed && d.Stage == is.Stage && d != is {
			return fmt.Errorf("rule %s: %+v", r.Rule.Name(), d)
		}
	}
	if allowed != v.Decision.Allowed || !found {
		return fmt.Errorf("allowed %t", allowed)
	}
	return nil
}

// No sketch is asked about a client without limit.
func TestForeseeWithoutLimit(t *testing.T) {
	t.Parallel()
	e := mustEngine(t, Settings{Rules: []RuleSpec{{Limit: ruleOf("a", 2), Key: key(byIP), Overrides: []Override{{Key: []string{"192.0.2.1"}, Unlimited: true}}}}})
	f, err := e.Foresee(e.lim.Rules()[0], []string{"192.0.2.1"}, 0, time.Now())
	if err != nil || f.Limit != nil || f.Suspicion != -1 || !f.Allowed() {
		t.Errorf("%+v, %v", f, err)
	}
}
