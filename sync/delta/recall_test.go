package delta

import (
	"fmt"
	"testing"
	"time"
)

// running has the rule of a node run bans of its own that nobody has been told, as after a
// restart with a state file.
func (n *banNode) running(left time.Duration, clients ...uint64) {
	for _, c := range clients {
		n.table.own = append(n.table.own, Ban{Digest: testDigest(c), Name: fmt.Sprint(c), Left: left, Times: 2})
	}
}

// changed has the rule of a node take another limit.
func (n *banNode) changed(limit string, now time.Duration) {
	n.table.limit = limit
	n.Follow(nil, []Banner{n.table})
	n.Recall(now)
}

// hear has two nodes tell each other all that they have to tell.
func hear(t *testing.T, a, b *banNode, now time.Duration) {
	t.Helper()
	b.hears(t, a.tells(now), now)
	a.hears(t, b.tells(now), now)
}

// What a restart has kept is told as any other ban, once, and taken back as one.
func TestRestoredBansAreTold(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	a.running(time.Hour, 1, 2)
	known(t, a, b)
	a.Recall(10 * second)
	a.Recall(10 * second) // nothing is new
	hear(t, a, b, 10*second)
	if len(b.table.bans) != 2 || a.Stats().Bans.Sent != 2 {
		t.Errorf("%+v, %+v", b.table.bans, a.Stats().Bans)
	}
	a.unban(1)
	hear(t, a, b, 11*second)
	if _, ok := b.table.bans[testDigest(1)]; ok || len(b.table.bans) != 1 {
		t.Errorf("%+v: not lifted", b.table.bans)
	}
}

// A ban that a node does not tell, such as one of before its restart, is taken back all the
// same; but not what is another node's.
func TestUnbanOfWhatWasNotTold(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	b.table.bans[testDigest(1)] = Ban{Digest: testDigest(1), Left: time.Hour} // restored, from a
	b.table.bans[testDigest(2)] = Ban{Digest: testDigest(2), Left: time.Hour}
	a.Unbanned(a.table.Identity(), testDigest(1), time.Hour, 10*second)
	a.Unbanned(a.table.Identity(), testDigest(2), 0, 10*second)
	hear(t, a, b, 10*second)
	if _, ok := b.table.bans[testDigest(2)]; !ok || len(b.table.bans) != 1 {
		t.Errorf("%+v", b.table.bans)
	}
	if s := a.Stats().Bans; s.UnbansSent != 1 || s.Sent != 0 {
		t.Errorf("%+v", s)
	}
}

// What one node takes back without having told it leaves what another one has told.
func TestLiftLeavesTheBansOfOthers(t *testing.T) {
	t.Parallel()
	a, b, c := newBanNode(t, "a", nil), newBanNode(t, "b", nil), newBanNode(t, "c", nil)
	known(t, a, b, c)
	c.ban(1, minute, 10*second)
	b.hears(t, c.tells(10*second), 10*second)
	a.Unbanned(a.table.Identity(), testDigest(1), time.Hour, 11*second)
	b.hears(t, a.tells(11*second), 11*second)
	if left := b.table.bans[testDigest(1)].Left; left != 59*second {
		t.Errorf("%v left of what c has told", left)
	}
}

// By another limit a rule has another identity: its bans are told by that, what an operator
// has ended is, too, and nothing by the one before.
func TestBansGoOnWithAnotherLimit(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	a.running(time.Hour, 1, 2, 3)
	known(t, a, b)
	a.Recall(10 * second)
	hear(t, a, b, 10*second)
	a.table.own = a.table.own[:2] // 3 is free
	a.unban(3)
	a.TellBans(11 * second) // which does not arrive
	a.changed("2/h", 12*second)
	b.changed("2/h", 12*second)
	rejected := b.Stats().Rejected[UnknownRule]
	hear(t, a, b, 13*second)
	if _, ok := b.table.bans[testDigest(3)]; ok || len(b.table.bans) != 2 || b.Stats().Rejected[UnknownRule] != rejected {
		t.Errorf("%+v, %d by the limit before", b.table.bans, b.Stats().Rejected[UnknownRule]-rejected)
	}
	a.table.own = a.table.own[:1]
	a.unban(2)
	hear(t, a, b, 14*second)
	if _, ok := b.table.bans[testDigest(2)]; ok || len(b.table.bans) != 1 {
		t.Errorf("%+v", b.table.bans)
	}
	a.Follow(nil, nil) // bans nobody any more
	a.Recall(15 * second)
	if len(a.State.bans.list) > 0 {
		t.Errorf("tells %+v, of a rule that is gone", a.State.bans.list)
	}
}

// What a node has kept of a ban over a restart ends where the origin, unheard, has ended that ban
// and begun a shorter one; not while another node says the same, nor where it is the node's own.
func TestShorterBanAfterRestart(t *testing.T) {
	t.Parallel()
	a, b, c := newBanNode(t, "a", nil), newBanNode(t, "b", nil), newBanNode(t, "c", nil)
	known(t, a, b, c)
	kept := Ban{Digest: testDigest(1), Name: "1", Left: time.Hour, Times: 1}
	for client := range uint64(3) {
		k := kept
		k.Digest = testDigest(client)
		b.table.bans[k.Digest] = k // by a state file
		a.ban(client, minute, 10*second)
	}
	c.ban(1, time.Hour, 10*second)
	own := kept
	own.Digest = testDigest(2)
	b.table.own = []Ban{own}
	b.hears(t, c.tells(10*second), 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	for client, want := range []time.Duration{minute, time.Hour, time.Hour} {
		if left := b.table.bans[testDigest(uint64(client))].Left; left != want {
			t.Errorf("client %d: %v left, want %v", client, left, want)
		}
	}
}
