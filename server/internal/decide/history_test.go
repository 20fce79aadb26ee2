package decide

import (
	"net/netip"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// A rule that another limiter has taken over counts once.
func TestAdoptedRulesCountOnce(t *testing.T) {
	t.Parallel()
	c := fastlimit.Config{Rules: []fastlimit.RuleConfig{{Name: "a", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1}}}
	old, err := fastlimit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	next, err := old.With(c)
	if err != nil {
		t.Fatal(err)
	}
	var h ruleHistory
	h.swap(old.Rules(), func() {})
	r := old.Rules()[0]
	for range 5 {
		r.Allow(r.AddrKey(netip.MustParseAddr("192.0.2.7")))
	}
	h.swap(next.Rules(), func() {})
	for range keepRetired + 2 {
		h.endSecond()
	}
	if len(h.retired) != 0 || len(h.past) != 0 || !(*engine.Rule)(next.Rules()[0]).Continues((*engine.Rule)(r)) {
		t.Errorf("%d retired, %d past: the rule goes on by itself", len(h.retired), len(h.past))
	}
}

// TestReplacedRulesAreReleasedAtOnce: there may be a reload a second, and each rule may have
// hundreds of MiB. Their counts stay, those of requests in flight included.
func TestReplacedRulesAreReleasedAtOnce(t *testing.T) {
	t.Parallel()
	const swaps = 20
	var h ruleHistory
	var old []weak.Pointer[fastlimit.Rule]
	late := func(wait time.Duration) (decide func()) {
		l, err := fastlimit.New(fastlimit.Config{Rules: []fastlimit.RuleConfig{{Name: "a", Rate: fastlimit.Rate{N: 1, Per: time.Hour}, Burst: 1, Strict: true, MaxWait: wait}}})
		if err != nil {
			t.Fatal(err)
		}
		r := l.Rules()[0]
		old = append(old, weak.Make(r))
		h.swap(l.Rules(), func() {})
		return func() { r.Allow(r.AddrKey(netip.MustParseAddr("192.0.2.7"))) }
	}
	var inFlight []func()
	for i := range swaps {
		decide := late(time.Duration(i%2) * time.Second)
		decide()
		inFlight = append(inFlight, decide)
	}
	for _, decide := range inFlight {
		decide()
	}
	clear(inFlight)
	runtime.GC()
	for i, r := range old {
		if kept := r.Value() != nil; kept && i < swaps-2 {
			t.Errorf("rule %d of %d is kept", i, swaps)
		}
	}
	check := func() {
		t.Helper()
		all := h.stats()
		if len(all) != 1 || all[0].Allowed[fastlimit.StageExact] != swaps || all[0].Denied[fastlimit.StageTable] != swaps {
			t.Errorf("%+v, want %d allowed and denied", all, swaps)
		}
	}
	check()
	for range keepRetired + 2 {
		h.endSecond()
	}
	check()
	if len(h.retired) != 0 {
		t.Errorf("%d retired still", len(h.retired))
	}
}
