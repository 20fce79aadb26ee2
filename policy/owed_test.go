package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
)

// answered is a rule by address of burst 10 whose requests cost 2 until X-Cost of the answer
// says otherwise, beside one that has no such header.
func answered(mode fastlimit.Mode) Settings {
	c := RuleSpec{Limit: ruleOf("answered", 10), Key: key(byIP), CostFrom: CostSource{ResponseHeader: "x-cost"}}
	c.Limit.Cost, c.Limit.Mode = 2, mode
	return Settings{Rules: []RuleSpec{c, {Limit: ruleOf("other", 20), Key: key(byIP)}}}
}

// Headers of a wire are those of an answer, too.
var _ Headers = wire{}

func TestOwed(t *testing.T) {
	t.Parallel()
	for _, mode := range []fastlimit.Mode{fastlimit.Enforce, fastlimit.Shadow} {
		for _, tt := range []struct {
			values []string
			left   int64
			bad    uint64
		}{
			{nil, 8, 0},
			{[]string{"2"}, 8, 0},
			{[]string{"7"}, 3, 0},
			{[]string{"10"}, 0, 0},
			{[]string{"11"}, 0, 0},
			{[]string{"9999999999999999999"}, 0, 0},
			{[]string{"1"}, 9, 0},
			{[]string{"0"}, 10, 0},
			{[]string{"00"}, 10, 0},
			{[]string{""}, 8, 1},
			{[]string{"-1"}, 8, 1},
			{[]string{"1.5"}, 8, 1},
			{[]string{"1, 2"}, 8, 1},
			{[]string{"3", "3"}, 8, 1},
			{[]string{"12345678901234567890"}, 8, 1},
		} {
			e := mustEngine(t, answered(mode))
			r, s, o := liveRequest("192.0.2.1"), new(Scratch), new(Owed)
			since := e.lim.Now()
			if v := e.Decide(t.Context(), r, s); !v.Decision.Allowed {
				t.Fatal(v)
			}
			e.Owe(o, s, since)
			*s = Scratch{} // it is another request's by then
			o.Settle(t.Context(), wire{"X-Cost": tt.values})
			if got := remaining(e, 0, "192.0.2.1"); got != tt.left {
				t.Errorf("%v, %q: %d left, want %d", mode, tt.values, got, tt.left)
			}
			if got := remaining(e, 1, "192.0.2.1"); got != 19 {
				t.Errorf("%v, %q: the other rule has %d left", mode, tt.values, got)
			}
			if stats := e.rules[0].limit.Stats(); stats.BadCosts != tt.bad || stats.Allowed[fastlimit.StageExact]+stats.Allowed[fastlimit.StageFilter] != 1 {
				t.Errorf("%v, %q: %+v", mode, tt.values, stats)
			}
			if !o.None() {
				t.Error("something is owed still")
			}
		}
	}
}

// A request that the shadow rule would have denied has no answer in earnest: it owes
// nothing, and one that an enforced rule denies does not count at all.
func TestShadowsOweForWhatTheyAdmit(t *testing.T) {
	t.Parallel()
	set := answered(fastlimit.Shadow)
	set.Rules[1].Limit = ruleOf("other", 9)
	e := mustEngine(t, set)
	r, s, o := liveRequest("192.0.2.1"), new(Scratch), new(Owed)
	for i := range 12 {
		since := e.lim.Now()
		v := e.Decide(t.Context(), r, s)
		if v.Decision.Allowed != (i < 9) {
			t.Fatalf("request %d: %+v", i, v)
		}
		applied := s.Applied()
		if i < 9 && (len(applied) != 2 || applied[1].Rule != e.rules[0].limit || (applied[1].Cost == 0) != (i >= 3)) || i >= 9 && len(applied) != 1 {
			t.Fatalf("request %d: %+v", i, applied)
		}
		if e.Owe(o, s, since); o.None() != (i >= 3) {
			t.Errorf("request %d owes %v", i, o.charges)
		}
		o.Settle(t.Context(), wire{"X-Cost": {"3"}}) // 9 after three requests
	}
	if got := remaining(e, 0, "192.0.2.1"); got != 1 {
		t.Errorf("%d left, want 1", got)
	}
	if n := e.rules[0].limit.Stats(); n.Denied[fastlimit.StageTable]+n.Denied[fastlimit.StageExact] != 6 {
		t.Errorf("%+v", n)
	}
}

// Override and key are those of the admission, and fractions count as such.
func TestOwedByTier(t *testing.T) {
	t.Parallel()
	set := answered(fastlimit.Enforce)
	set.Rules[0].CostFrom.Fractions = true
	set.Rules[0].Key = []KeyPart{{Kind: KeyHeader, Name: "X-Api-Key"}}
	set.Rules[0].Overrides = []Override{{Key: []string{"gold"}, Burst: 50}, {Key: []string{"free"}, Unlimited: true}}
	e := mustEngine(t, set)
	for name, left := range map[string]int64{"gold": 42, "other": 2, "free": -2} {
		s, o := new(Scratch), new(Owed)
		text := []byte(name)
		r := liveRequest("192.0.2.1")
		r.Fields = wire{"X-Api-Key": {string(text)}}
		since := e.lim.Now()
		e.Decide(t.Context(), r, s)
		e.Owe(o, s, since)
		if o.None() {
			if left != -2 {
				t.Errorf("%s owes nothing", name)
			}
			continue
		}
		c := o.charges[0]
		for _, p := range s.parts { // which the key must not borrow
			clear(p)
		}
		o.Settle(t.Context(), wire{"X-Cost": {"7.5"}})
		if d := c.Rule.Peek(c.Key, 1); d.Remaining != left {
			t.Errorf("%s: %d left, want %d", name, d.Remaining, left)
		}
		if got, want := string(c.Rule.AppendKey(nil, c.Key)), name; got != want {
			t.Errorf("the key is %s, want %s", got, want)
		}
	}
}

// What a scratch has of one request never reaches the next: one on a list, a refused one.
func TestNothingStaysApart(t *testing.T) {
	t.Parallel()
	set := answered(fastlimit.Shadow)
	set.Allow = prefixes("198.51.100.0/24")
	e := mustEngine(t, set)
	s := new(Scratch)
	if all := e.Applying(liveRequest("192.0.2.1"), s); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	e.collect(liveRequest("192.0.2.1"), s, time.Time{}) // as if it were refused then
	e.Decide(t.Context(), liveRequest("198.51.100.1"), s)
	if len(s.Applied()) != 0 || len(s.apart) != 0 {
		t.Errorf("%+v, %+v", s.Applied(), s.apart)
	}
	if got := remaining(e, 0, "192.0.2.1"); got != 10 {
		t.Errorf("%d left", got)
	}
}

// By address nothing is allocated, and without such a rule nobody pays for it.
func TestOwedDoesNotAllocate(t *testing.T) { // not parallel, as the others
	for _, mode := range []fastlimit.Mode{fastlimit.Enforce, fastlimit.Shadow} {
		e := mustEngine(t, answered(mode))
		r, ctx := liveRequest("192.0.2.1"), t.Context()
		var s Scratch
		var o Owed
		answer := &constFields{header: instances("1")}
		do := func() {
			since := e.lim.Now()
			e.Decide(ctx, r, &s)
			e.Owe(&o, &s, since)
			o.Settle(ctx, answer)
		}
		do()
		wantNoAllocs(t, mode.String(), do)
	}
}

// Whatever rules of a policy have their costs from, an engine says so.
func TestCostHeaders(t *testing.T) {
	t.Parallel()
	set := answered(fastlimit.Enforce)
	third := set.Rules[0]
	third.Limit.Name, third.CostFrom.ResponseHeader = "third", "X-COST"
	set.Rules = append(set.Rules, third)
	if e := mustEngine(t, set); !e.Owes() || fmt.Sprint(e.CostHeaders()) != "[X-Cost]" {
		t.Errorf("%v %v", e.Owes(), e.CostHeaders())
	}
	if e := mustEngine(t, costed(BadCostReject)); e.Owes() || e.CostHeaders() != nil {
		t.Errorf("%v %v", e.Owes(), e.CostHeaders())
	}
}
