package server

import (
	"net/netip"
	"testing"

	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// In a banned network only the client that asked is passed to the kernel if a neighbour may have a limit of
// its own: that one is not charged to the network, and is served.
func TestNetworksWithOverridesInTheKernel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ override, want string }{
		{"", "[127.0.0.4/30]"},
		{beside, "[" + attacker + "/32]"},
		{"127.0.0.6/31", "[" + attacker + "/32]"},
	} {
		m := new(memory)
		set := floodRules()
		r := &set.Rules[0]
		r.Prefixes = policy.Prefixes{V4: []int{30}, Members: 2}
		if tc.override != "" {
			r.Overrides = []policy.Override{{Key: []string{tc.override}, Unlimited: true}}
		}
		s := start(t, set, withKernel(t, m))
		// The network is banned by the rule for networks, and the client by that alone.
		rule, ok := s.config().Limiter.Rule(policy.PrefixRule(r.Limit.Name, 30))
		if !ok {
			t.Fatal("no rule for the network")
		}
		key := rule.AddrKey(netip.MustParseAddr(attacker))
		for range 20 {
			rule.Take(t.Context(), key, 1)
		}
		if _, banned := (*engine.Rule)(rule).Banned(engine.Key(key)); !banned {
			t.Fatal("the network is not banned")
		}
		ask(dialFrom(t, attacker, s.addr))
		eventually(t, func() bool { return m.all() == tc.want })
		if tc.override == "" {
			continue
		}
		if got := ask(dialFrom(t, beside, s.addr)); got != 200 || s.KernelHolds(netip.MustParseAddr(beside)) {
			t.Errorf("%+v: the neighbour got %d", tc, got)
		}
	}
}

// A client that is not limited from now on is not dropped any longer, nor is its network.
// Others that are banned stay so.
func TestOverrideFromNowOn(t *testing.T) {
	t.Parallel()
	m := new(memory)
	set := floodRules()
	s := start(t, set, withKernel(t, m))
	flood(t, s.addr, untilBan)
	f := s.feed.Load()
	told := decide.Banned{Client: netip.MustParseAddr(attacker), Rule: s.config().Limiter.Rules()[0], Prefix: netip.MustParsePrefix(attacker + "/32")}
	if !s.decide.StillBanned(told) {
		t.Error("not banned")
	}
	f.Add(netip.MustParsePrefix(beside+"/32"), 1<<40)
	f.Add(netip.MustParsePrefix("127.0.0.4/30"), 1<<40)
	eventually(t, func() bool { return f.Stats().Held == 3 })
	e, err := s.config().Engine.WithLive(&set, []policy.LiveOverride{{Rule: 0, Key: []string{attacker}}})
	if err != nil {
		t.Fatal(err)
	}
	s.SetEngine(e, nil)
	if s.decide.StillBanned(told) { // who has asked just before tells the kernel just after
		t.Error("banned without a limit")
	}
	eventually(t, func() bool { return m.all() == "["+beside+"/32]" })
	if got := ask(dialFrom(t, attacker, s.addr)); got != 200 {
		t.Errorf("got %d", got)
	}
}
