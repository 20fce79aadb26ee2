package decide

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

func (a *alive) setLists(allow, deny string) {
	a.Helper()
	prefixes := func(s string) []netip.Prefix {
		if s == "" {
			return nil
		}
		return []netip.Prefix{netip.MustParsePrefix(s)}
	}
	l, err := policy.NewLists(prefixes(allow), prefixes(deny))
	if err != nil {
		a.Fatal(err)
	}
	a.Update(func(now *Snapshot) *Snapshot { return now.WithLists(l) })
}

func (a *alive) judgeOne(client string) policy.Verdict {
	in := policy.Incoming{Peer: netip.MustParseAddr(client), Method: []byte("GET"), Target: []byte("/"), Host: []byte("a")}
	v, _ := a.Service.Judge(a.Context(), &in, false, time.Now())
	return v
}

// A new entry of the allow list takes effect at once, also for a client who stands denied;
// without it the client is where it was: the swap has forgotten nothing.
func TestAllowWhoStandsDenied(t *testing.T) {
	t.Parallel()
	a := newAlive(t)
	for range 3 {
		a.judgeOne("192.0.2.1")
	}
	expect := func(when string, allowed bool, list policy.ListVerdict) {
		t.Helper()
		if v := a.judgeOne("192.0.2.1"); v.Decision.Allowed != allowed || v.List != list {
			t.Errorf("%s: %+v", when, v)
		}
	}
	expect("over its limit", false, policy.ListNone)
	a.setLists("192.0.2.0/24", "")
	expect("on the allow list", true, policy.ListAllow)
	a.setLists("192.0.2.0/24", "192.0.2.0/24")
	expect("on both", false, policy.ListDeny)
	a.setLists("192.0.2.1/32", "192.0.2.0/24")
	expect("the longer prefix on the allow list", true, policy.ListAllow)
	a.setLists("", "")
	expect("on none", false, policy.ListNone)
}

// Lists and live overrides are replaced by two goroutines: after each swap of either, what
// the other has set last is still there. Under -race.
func TestListsAndOverridesSwapBeside(t *testing.T) {
	t.Parallel()
	a := newAlive(t)
	const rounds = 300
	tiers := []*fastlimit.Rule{a.tier(7), a.tier(8)}
	var engines []*policy.Engine
	for _, tier := range tiers {
		e, err := a.file.WithLive(&a.settings, []policy.LiveOverride{{Key: []string{"10.0.0.9"}, Tier: tier}})
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
	}
	var both sync.WaitGroup
	both.Go(func() {
		for i := range rounds {
			e, tier := engines[i%2], tiers[i%2:i%2+1]
			a.Update(func(now *Snapshot) *Snapshot { return now.WithEngine(e, tier) })
			if limit := a.limitOf("10.0.0.9"); limit != tiers[i%2] {
				t.Errorf("round %d: a swap of lists has undone an override: %v", i, limit.Config().Burst)
				return
			}
		}
	})
	both.Go(func() {
		for i := range rounds {
			client := fmt.Sprintf("172.16.%d.1", i%2)
			a.setLists("", client+"/32")
			if v := a.Snapshot().engine.Lists().Lookup(netip.MustParseAddr(client)); v != policy.ListDeny {
				t.Errorf("round %d: a swap of overrides has undone a list: %v", i, v)
				return
			}
		}
	})
	both.Wait()
	// What is answered is of both: the lists' verdict, and the tier's own answer.
	if v := a.judgeOne("172.16.1.1"); v.List != policy.ListDeny {
		t.Errorf("%+v", v)
	}
	for range 9 {
		a.judgeOne("10.0.0.9")
	}
	if v := a.judgeOne("10.0.0.9"); v.Rule != tiers[1] || a.Snapshot().denial(v.Rule, 0).answer == nil {
		t.Errorf("%+v", v)
	}
}

// limitOf is the limit that a client has by the current snapshot.
func (a *alive) limitOf(client string) *fastlimit.Rule {
	limit, _, _, err := a.Snapshot().engine.LimitFromText(a.base, []string{client})
	if err != nil {
		a.Error(err)
	}
	return limit
}
