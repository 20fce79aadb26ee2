package gossip

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/sync/delta"
)

// A member that speaks in the name of another neither ends its bans, nor bans, nor keeps it from
// being heard: bans come from the address of the node that they name.
func TestForgedBans(t *testing.T) {
	t.Parallel()
	a := banning(t, func(c *Config) { c.AcceptBans = true }, nil)
	b := banning(t, func(c *Config) { c.AcceptBans, c.Join = true, []string{a.Addr().String()} }, nil)
	together(t, a, b)
	evil := newPeer(t, b, "evil", appendMeta(nil, 7), 7)
	const client, another, later = "192.0.2.7", "192.0.2.8", "192.0.2.9"
	a.flood(client, 200)
	eventually(t, "the ban", func() bool { return b.banned(client) > 0 })

	forger, err := delta.New(delta.Config{
		Cluster: "test", Node: a.Node(), Incarnation: a.members.incarnation, Banners: []delta.Banner{banner{Rule: a.rule}},
	})
	if err != nil {
		t.Fatal(err)
	}
	digest := func(addr string) delta.Ban {
		k := a.rule.AddrKey(netip.MustParseAddr(addr))
		return delta.Ban{Digest: k.Digest(), Left: time.Hour, Times: 1}
	}
	forger.TellBans(0)
	for range 5 { // its serials are above those of a
		forger.Banned((*engine.Rule)(a.rule).Identity(), digest(another), time.Second)
	}
	forger.Unbanned((*engine.Rule)(a.rule).Identity(), digest(client).Digest, time.Hour, time.Second)
	told := uint64(0)
	for now := time.Second; now < 34*365*24*time.Hour; now *= 30 { // as of now, and of times to come
		for _, p := range forger.TellBans(now) {
			evil.send(t, p)
			told++
		}
	}
	eventually(t, "what is forged", func() bool {
		return b.Stats().Rejected[reasonSource] == told || b.Stats().Delta.Bans.UnbansReceived > 0
	})
	if told < 5 || b.banned(client) == 0 || b.banned(another) > 0 {
		t.Fatalf("%d packets; banned for %v and %v", told, b.banned(client), b.banned(another))
	}
	a.flood(later, 200)
	eventually(t, "what a says", func() bool { return b.banned(later) > 0 })
}

// Who says over and over that a client is banned for a moment, and takes that back, does not
// keep a node's own rule from banning it.
func TestToldBansForgiveNothing(t *testing.T) {
	t.Parallel()
	n := banning(t, nil, nil)
	key := n.rule.AddrKey(netip.MustParseAddr("192.0.2.7"))
	for n.rule.Allow(key) {
	}
	told := engine.Ban{Digest: key.Digest(), Left: time.Minute, Times: 1}
	for range 2 { // the second and the third denial
		if left := n.banned("192.0.2.7"); left > 0 {
			t.Fatalf("banned for %v", left)
		}
		if !(*engine.Rule)(n.rule).BanFor(&told) {
			t.Fatal("not banned")
		}
		if _, ended := (*engine.Rule)(n.rule).UnbanFor(told.Digest); !ended {
			t.Fatal("not ended")
		}
		n.rule.Allow(key)
	}
	if left := n.banned("192.0.2.7"); left < 59*time.Minute {
		t.Errorf("banned for %v after three denials", left)
	}
}
