package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// slidingPerMinute counts what a sliding algorithm by itself denies of hits, each limited
// to so many a minute, by going through all that a client was admitted before.
func slidingPerMinute(hits []hit, algorithm fastlimit.Algorithm, perMinute int64) (denied int) {
	admitted := map[string][]int64{} // seconds
	for _, h := range slices.SortedStableFunc(slices.Values(hits), func(a, b hit) int { return cmp.Compare(a.at, b.at) }) {
		name := h.client.String()
		if p, _ := h.client.Prefix(64); h.client.Is6() {
			name = p.String()
		}
		live, before, now := int64(0), int64(0), int64(0)
		for _, at := range admitted[name] {
			if h.at-at < 60 {
				live++
			}
			switch h.at/60 - at/60 {
			case 0:
				now++
			case 1:
				before++
			}
		}
		level := live
		if algorithm == fastlimit.SlidingWindow {
			const steps = 62_500
			level = now + (before*(steps-h.at%60*steps/60)+steps-1)/steps
		}
		if level+1 > perMinute {
			denied++
			continue
		}
		admitted[name] = append(admitted[name], h.at)
	}
	return denied
}

// Limiter and oracle decide as the obvious loop does, exactly where the rule is strict;
// else they admit more, within the bound, and deny nobody falsely.
func TestSlidingAgainstAList(t *testing.T) {
	t.Parallel()
	hits := generate(60_000, 90)
	for _, algorithm := range []fastlimit.Algorithm{fastlimit.SlidingWindow, fastlimit.SlidingLog} {
		want := slidingPerMinute(hits, algorithm, 12)
		for _, strict := range []bool{false, true} {
			s := windowRule("12/m", strict, false)
			s.Limit.Algorithm = algorithm
			r := mustRun(t, logOf(hits), config(policy.Settings{Rules: []policy.RuleSpec{s}}))
			rr := r.Rules[0]
			if rr.ExactDenied != want || r.FalseDenials != 0 || r.Denied > want || r.Denied == 0 || strict && r.Denied != want {
				t.Errorf("%v, strict %t: denied %d, the oracle %d; want %d; %d false", algorithm, strict, r.Denied, rr.ExactDenied, want, r.FalseDenials)
			}
			if bound := 0.5*12 + 1; !strict && (rr.ExcessBound != bound || rr.Excess > bound || rr.Excess < bound/2) || strict && rr.Excess != 0 {
				t.Errorf("%v, strict %t: excess %v of %v", algorithm, strict, rr.Excess, rr.ExcessBound)
			}
			var text strings.Builder
			if err := r.WriteText(&text, 0); err != nil || strings.Contains(text.String(), "burst") ||
				!strings.Contains(text.String(), fmt.Sprintf("12/m, %v, enforce", algorithm)) ||
				!strings.Contains(text.String(), fmt.Sprintf("exact %vs alone would deny %d; the highest excess over the limit", algorithm, want)) {
				t.Errorf("%v\n%s", err, text.String())
			}
		}
	}
}

// The oracle forgets times that no longer count, also those of clients who do not come
// back.
func TestLogsAreSwept(t *testing.T) {
	t.Parallel()
	e, err := newExact(fastlimit.SlidingLog, windowRule("100/m", true, false).Limit)
	if err != nil {
		t.Fatal(err)
	}
	b := &ruleBook{exact: e, clients: map[string]*account{}, sweepAt: minSweep}
	most := 0
	for i := range int64(200_000) {
		a := lookup(b.clients, fmt.Append(nil, i/10))
		a.limit = &b.exact
		at := i * second / 10
		held := a.entries()
		a.advance(&b.exact, at)
		a.judge(&b.exact, 1, admitted)
		b.entries += a.entries() - held
		b.sweep(at)
		most = max(most, b.entries)
	}
	// 600 requests count at a time, each in two tallies.
	live := 0
	for _, a := range b.clients {
		live += len(a.admitted.taken)
	}
	if live < 600 || most > 2*len(b.clients)+2*minSweep {
		t.Errorf("%d times are left, at most %d were held at once", live, most)
	}
}
