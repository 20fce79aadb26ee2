package gossip

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sketch"
	"github.com/fastlimit/fastlimit/sync/delta"
	"github.com/hashicorp/memberlist"
)

// banning starts a node whose rule bans a client at its third denial.
func banning(t *testing.T, change func(*Config), rule func(*fastlimit.RuleConfig)) *testNode {
	t.Helper()
	n := &testNode{}
	return nodeOf(t, 1, n, change, func(c *fastlimit.Config) {
		c.Rules[0].Ban = fastlimit.BanPolicy{After: 3, For: time.Hour, Max: time.Hour}
		if rule != nil {
			rule(&c.Rules[0])
		}
		c.OnBan = func(b fastlimit.Ban) { n.Banned(b) }
		c.OnUnban = func(b fastlimit.Ban) { n.Unbanned(b) }
	})
}

func (n *testNode) banned(addr string) time.Duration {
	left, _ := (*engine.Rule)(n.rule).Banned((*engine.Rule)(n.rule).AddrKey(netip.MustParseAddr(addr)))
	return left
}

// A ban reaches nodes that accept bans, for as long as they ban at most, and no others: not
// one that does not accept them, whose rule is in shadow mode or another one, or which is too
// old to be told. It ends everywhere where it is ended, and is told by nobody else.
func TestBans(t *testing.T) {
	t.Parallel()
	accept := func(c *Config) { c.AcceptBans = true }
	a := banning(t, accept, nil)
	join := func(c *Config) { c.Join, c.AcceptBans = []string{a.Addr().String()}, true }
	ended := make(chan fastlimit.Ban, 1)
	b := banning(t, join, nil)
	short := banning(t, func(c *Config) { join(c); c.BanEnded = func(b fastlimit.Ban) { ended <- b } }, func(r *fastlimit.RuleConfig) { r.Ban.For, r.Ban.Max = time.Minute, time.Minute })
	shadow := banning(t, join, func(r *fastlimit.RuleConfig) { r.Mode = fastlimit.Shadow })
	other := banning(t, join, func(r *fastlimit.RuleConfig) { r.Burst = 99 })
	without := banning(t, join, func(r *fastlimit.RuleConfig) { r.Ban = fastlimit.BanPolicy{} })
	off := banning(t, func(c *Config) { join(c); c.AcceptBans = false }, nil)
	old := banning(t, func(c *Config) { join(c); c.tune = func(mc *memberlist.Config) { mc.DelegateProtocolMax = 0 } }, nil)
	together(t, a, b, short, shadow, other, without, off, old)
	const client = "192.0.2.7"
	if a.flood(client, 200); a.banned(client) == 0 {
		t.Fatal("not banned where it asked")
	}
	eventually(t, "the ban", func() bool {
		return b.banned(client) > 0 && short.banned(client) > 0 && off.Stats().Delta.Bans.Received == 1 && shadow.Stats().Delta.Bans.Received == 1 &&
			other.Stats().Delta.Rejected[delta.UnknownRule] > 0 && without.Stats().Delta.Rejected[delta.UnknownRule] > 0
	})
	if left, at := b.banned(client), a.banned(client); left > at+time.Second || left < at-time.Minute {
		t.Errorf("%v left, and %v where it began", left, at)
	}
	if left := short.banned(client); left > time.Minute {
		t.Errorf("%v left, longer than the rule bans anybody", left)
	}
	if b.rule.Allow(b.rule.AddrKey(netip.MustParseAddr(client))) || b.banned("192.0.2.8") > 0 {
		t.Error("another one is banned")
	}
	for _, n := range []*testNode{shadow, other, without, off, old} {
		if left := n.banned(client); left != 0 {
			t.Errorf("banned for %v where it is not to be", left)
		}
		if s := n.Stats().Delta.Bans; s.Applied != 0 || n == old && s.Received != 0 {
			t.Errorf("%+v", s)
		}
	}
	if s := old.Stats(); s.Rejected["malformed"]+s.Rejected["version"] > 0 {
		t.Errorf("a node that knows no bans is sent some: %v", s.Rejected)
	}

	// An operator at b means b.
	key := a.rule.AddrKey(netip.MustParseAddr(client))
	if !b.rule.Unban(b.rule.AddrKey(netip.MustParseAddr(client))) || b.banned(client) > 0 {
		t.Error("not ended")
	}
	if !a.rule.Unban(key) {
		t.Error("not ended where it began")
	}
	eventually(t, "the end", func() bool {
		return short.banned(client) == 0 && b.Stats().Delta.Bans.UnbansReceived+short.Stats().Delta.Bans.UnbansReceived >= 1
	})
	was := <-ended
	if p, _ := was.Prefix(); p != netip.MustParsePrefix(client+"/32") {
		t.Errorf("ended: %+v", was)
	}
	for _, n := range []*testNode{b, short, shadow, other, without, off, old} {
		if s := n.Stats().Delta.Bans; s.Sent+s.UnbansSent > 0 {
			t.Errorf("what others have told was told on: %+v", s)
		}
	}
}

// Bans in shadow are nobody else's.
func TestShadowBansStay(t *testing.T) {
	t.Parallel()
	a := banning(t, nil, func(r *fastlimit.RuleConfig) { r.Mode = fastlimit.Shadow })
	a.flood("192.0.2.7", 200)
	a.send()
	if a.banned("192.0.2.7") == 0 || a.Stats().Delta.Bans.Sent != 0 {
		t.Errorf("banned for %v, %+v", a.banned("192.0.2.7"), a.Stats().Delta.Bans)
	}
}

// A node that gives a client the address of another is not believed.
func TestBanUnderAnotherName(t *testing.T) {
	t.Parallel()
	lim := newLimiter(t, "test", testSecret, 1, func(c *fastlimit.Config) {
		c.Rules[0].Ban = fastlimit.BanPolicy{After: 1, For: time.Minute}
	})
	r, _ := lim.Rule("r")
	key := r.AddrKey(netip.MustParseAddr("192.0.2.7"))
	ban := func(name string, d sketch.Digest) time.Duration {
		granted, _ := banner{Rule: r}.BanFor(delta.Ban{Digest: d, Name: name, Left: time.Hour, Times: 1})
		return granted
	}
	if got := ban("4\xc0\x00\x02\x08", key.Digest()); got != 0 {
		t.Errorf("banned for %v under the address of another", got)
	}
	if _, ok := (*engine.Rule)(r).Banned(engine.Key(key)); ok {
		t.Error("banned")
	}
	if got := ban("4\xc0\x00\x02\x07", key.Digest()); got != time.Minute {
		t.Errorf("banned for %v, want a minute", got)
	}
}
