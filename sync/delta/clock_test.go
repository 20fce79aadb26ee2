package delta

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/ban"
)

// dated is a packet of bans as if it had been sent at another time, without its bans.
func dated(t *testing.T, n *banNode, sent time.Duration) []byte {
	t.Helper()
	h := header{cluster: n.cluster, incarnation: n.config.Incarnation, seq: 1, node: n.node}
	return appendBanHeader(nil, &h, sent)
}

// A packet that says that it was sent when its node cannot have sent it is dropped, and bans go
// on to be dated by the others.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	now := 10 * second
	for _, sent := range []time.Duration{maxBanTime * time.Millisecond, time.Hour, now + clockWindow + second} {
		if r := b.Receive(dated(t, a, sent), now); r == nil || r.Reason != Clock || r.Node != "a" {
			t.Errorf("sent at %v: %+v", sent, r)
		}
	}
	if got := b.Stats().Rejected[Clock]; got != 3 {
		t.Errorf("%d counted", got)
	}
	a.ban(1, minute, now)
	b.hears(t, a.tells(now), now)
	if got := b.table.bans[testDigest(1)].Left; got != minute {
		t.Errorf("%v left", got)
	}
	// As late as the network has been so far, and one that had to wait for longer.
	if r := b.Receive(dated(t, a, now+clockWindow), now); r != nil {
		t.Errorf("%v", r.Reason)
	}
}

// When this node has stood still, the clocks of the others are met anew.
func TestClockAfterSuspension(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	const slept = time.Hour // of b, by a's clock
	applied := time.Duration(0)
	a.ban(1, 3*time.Hour, 10*second+slept)
	for now := 10 * second; now < minute && applied == 0; now += second {
		for _, p := range a.tells(now + slept) {
			b.Receive(p, now)
		}
		if b.table.bans[testDigest(1)].Left > 0 {
			applied = now
		}
	}
	if most := 10*second + clockWindow + settled + repeatEvery + 2*second; applied == 0 || applied > most || b.Stats().Rejected[Clock] == 0 {
		t.Errorf("applied at %v, want by %v; %d rejected", applied, most, b.Stats().Rejected[Clock])
	}
}

// No node fills another's claims for longer than any ban lasts.
func TestLongestClaim(t *testing.T) {
	t.Parallel()
	if maxLeft != ban.MaxFor {
		t.Errorf("%v, and a ban lasts for up to %v", maxLeft, ban.MaxFor)
	}
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	p := dated(t, a, 10*second)
	for lifted := range uint64(2) {
		p = appendBan(p, &banEntry{banID: banID{a.table.Identity(), testDigest(lifted)}, serial: 1 + lifted, left: maxBanTime * time.Millisecond, times: lifted})
	}
	b.hears(t, [][]byte{p}, 10*second)
	known := b.mirrors["a"].claims.known
	for _, c := range known {
		if c.end > 10*second+maxLeft {
			t.Errorf("kept until %v", c.end)
		}
	}
	if len(known) != 2 {
		t.Errorf("%d claims", len(known))
	}
}
