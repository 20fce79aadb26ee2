package decide

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
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
	if len(h.retired) != 0 || len(h.past) != 0 || !next.Rules()[0].Continues(r) {
		t.Errorf("%d retired, %d past: the rule goes on by itself", len(h.retired), len(h.past))
	}
}
