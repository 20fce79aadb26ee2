package server

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// nameOf is the compact name of an IPv4 address.
func nameOf(addr string) string {
	b := netip.MustParseAddr(addr).As4()
	return "4" + string(b[:])
}

// A client's state is shown next to what it sends: its own limit, and who has banned it for how long.
func TestTopSaysWhatHolds(t *testing.T) {
	t.Parallel()
	set := perSecond()
	set.Rules[0].Limit.Ban = ban.Policy{After: 2, Within: time.Second, For: time.Minute}
	set.Rules[0].Overrides = []policy.Override{
		{Key: []string{"192.0.2.2"}, Rate: fastlimit.Rate{N: 600, Per: time.Minute}},
		{Key: []string{"192.0.2.3"}, Unlimited: true},
	}
	set.Rules = append(set.Rules, policy.RuleSpec{
		Limit: fastlimit.RuleConfig{Name: "pair", Rate: fastlimit.Rate{N: 2, Per: time.Second}, Mode: fastlimit.Shadow},
		Key:   []policy.KeyPart{{Kind: policy.KeyIP}, {Kind: policy.KeyHeader, Name: "X-Key"}},
	})
	c := newConfig(t, set)
	rule, _ := c.Limiter.Rule("per-ip")
	key := rule.AddrKey(netip.MustParseAddr("192.0.2.4"))
	for range 8 {
		rule.Allow(key)
	}
	now := time.Now()
	bans := (*policy.Bans)(nil).With(netip.MustParsePrefix("198.51.100.0/24"), now.Add(time.Hour))
	engine := c.Engine.WithBans(bans)
	for _, tt := range []struct {
		rule, name string
		want       admin.TopClient
		limit      float64 // 0: none
	}{
		{"per-ip", nameOf("192.0.2.1"), admin.TopClient{Parts: []string{"192.0.2.1"}}, 1},
		{"per-ip", nameOf("192.0.2.2"), admin.TopClient{Parts: []string{"192.0.2.2"}, Override: true}, 10},
		{"per-ip", nameOf("192.0.2.3"), admin.TopClient{Parts: []string{"192.0.2.3"}, Override: true}, 0},
		{"per-ip", nameOf("192.0.2.4"), admin.TopClient{Parts: []string{"192.0.2.4"}, BannedBy: "rule", Banned: 60}, 1},
		{"per-ip", nameOf("198.51.100.9"), admin.TopClient{Parts: []string{"198.51.100.9"}, BannedBy: "operator", Banned: 3600}, 1},
		{"per-ip", "6\x20\x01\x0d\xb8\x00\x00\x00\x00", admin.TopClient{Parts: []string{"2001:db8::/64"}}, 1},
		{"per-ip", "", admin.TopClient{}, 1},
		{"pair", "p\x04\xc0\x00\x02\x01\x02ab", admin.TopClient{Parts: []string{"192.0.2.1", engine.HashKey("ab")}}, 2},
		{"pair", "p\x08\x20\x01\x0d\xb8\x00\x00\x00\x00\x02a\xff", admin.TopClient{Parts: []string{"2001:db8::/64", engine.HashKey("a\xff")}}, 2},
		{"pair", "c\x04\xc0\x00\x02\x01\x02ab", admin.TopClient{}, 2}, // cut
		{"pair", "p\x02\xc0\x00\x02ab", admin.TopClient{}, 2},
		{"pair", "p\x09ab", admin.TopClient{}, 2},
	} {
		got := describeTalker(&toptalkers.Talker{Rule: tt.rule, Name: tt.name, Rate: 30}, c.Limiter, engine, now)
		limit, share := 0.0, 0.0
		if got.Limit != nil {
			limit, share = *got.Limit, *got.Share
		}
		if limit != tt.limit || share != 30/max(tt.limit, 1) && tt.limit > 0 || got.Override != tt.want.Override ||
			!slices.Equal(got.Parts, tt.want.Parts) || got.BannedBy != tt.want.BannedBy ||
			got.Banned > tt.want.Banned || got.Banned < tt.want.Banned*0.9 {
			t.Errorf("%s %q: %+v, limit %v, share %v, want %+v, limit %v", tt.rule, tt.name, got, limit, share, tt.want, tt.limit)
		}
		if mode := map[string]string{"per-ip": "enforce", "pair": "shadow"}[tt.rule]; got.Mode != mode {
			t.Errorf("%s is in mode %q", tt.rule, got.Mode)
		}
	}
}

// Another order, or one rule, is that of the clients with the highest rates, cut afterwards.
func TestTopInOrder(t *testing.T) {
	t.Parallel()
	c := newConfig(t, policy.Settings{Rules: []policy.RuleSpec{
		{Limit: fastlimit.RuleConfig{Name: "fast", Rate: fastlimit.Rate{N: 100, Per: time.Second}}, Key: []policy.KeyPart{{Kind: policy.KeyIP}}},
		{Limit: fastlimit.RuleConfig{Name: "slow", Rate: fastlimit.Rate{N: 1, Per: time.Second}}, Key: []policy.KeyPart{{Kind: policy.KeyIP}}},
	}})
	c.TopTalkers = talkers{
		{Rule: "fast", Key: "c", Rate: 50, Denied: 1},
		{Rule: "slow", Key: "a", Rate: 40, Denied: 39},
		{Rule: "fast", Key: "a", Rate: 30},
		{Rule: "gone", Key: "b", Rate: 20, Denied: 2},
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		q    admin.TopQuery
		want []string
	}{
		{admin.TopQuery{N: 9, Sort: "rate"}, []string{"fast c", "slow a", "fast a", "gone b"}},
		{admin.TopQuery{N: 9, Sort: "denied"}, []string{"slow a", "gone b", "fast c", "fast a"}},
		{admin.TopQuery{N: 9, Sort: "share"}, []string{"slow a", "fast c", "fast a", "gone b"}},
		{admin.TopQuery{N: 9, Sort: "key"}, []string{"fast a", "slow a", "gone b", "fast c"}},
		{admin.TopQuery{N: 1, Sort: "denied"}, []string{"slow a"}},
		{admin.TopQuery{N: 1, Sort: "rate", Rule: "slow"}, []string{"slow a"}},
		{admin.TopQuery{N: 9, Sort: "key", Rule: "fast"}, []string{"fast a", "fast c"}},
	} {
		top, err := s.top(tt.q)
		var got []string
		for _, c := range top.Clients {
			got = append(got, c.Rule+" "+c.Key)
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q, %v", tt.q, got, tt.want, err)
		}
	}
}

// Totals are of the last seconds: what came before is in none.
func TestTotals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, perSecond())
		sent := uint64(0)
		c.Store = func() StoreInfo { return StoreInfo{State: "closed", Operations: sent} }
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(n int) {
			in := policy.Incoming{Peer: netip.MustParseAddr("192.0.2.7"), Method: []byte("GET"), Target: []byte("/")}
			for range n {
				s.decide.Judge(t.Context(), &in, false, time.Now())
			}
			sent += uint64(n)
		}
		check := func(requests, denied, store float64) {
			t.Helper()
			got := s.totals()
			if got.Requests != requests || got.Denied != denied || got.Admitted != requests-denied ||
				got.Rules[0].Denied != denied || got.Rules[0].Admitted != requests-denied || got.Store.Operations != store {
				t.Errorf("%+v, want %v requests/s, %v denied, %v operations", got, requests, denied, store)
			}
		}
		ask(4) // of 3
		time.Sleep(2 * time.Second)
		check(2, 0.5, 2) // the mean since the start
		s.endSecond()
		time.Sleep(time.Second)
		check(0, 0, 0)
		ask(11) // two have leaked, and one more since
		check(11, 8, 11)
		for range samples {
			s.endSecond()
			time.Sleep(time.Second)
		}
		check(0, 0, 0)
		if got := s.totals(); got.Uptime != 6 || got.Rules[0].Rule != "per-ip" || got.Store.Name != "redis" {
			t.Errorf("%+v", got)
		}
	})
}
