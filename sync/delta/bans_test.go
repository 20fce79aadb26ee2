package delta

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/sketch"
)

// banTable is a [Banner] that does as it is told.
type banTable struct {
	name  string
	limit string // changes the identity
	most  time.Duration
	own   []Ban // that run, and stay
	bans  map[sketch.Digest]Ban
	calls int
}

func (b *banTable) Name() string           { return b.name }
func (b *banTable) Identity() uint64       { return clusterHash(b.name + b.limit) }
func (b *banTable) Running() iter.Seq[Ban] { return slices.Values(b.own) }
func (b *banTable) BanFor(x Ban) (granted, runs time.Duration) {
	b.calls++
	x.Left = min(x.Left, b.most)
	if x.Left > b.bans[x.Digest].Left {
		b.bans[x.Digest] = x
	}
	return x.Left, b.bans[x.Digest].Left
}

func (b *banTable) EndBan(d sketch.Digest) bool {
	b.calls++
	_, was := b.bans[d]
	delete(b.bans, d)
	for _, own := range b.own {
		if own.Digest == d {
			b.bans[d] = own
		}
	}
	return was
}

// banNode is a State with a rule that bans.
type banNode struct {
	*State
	table *banTable
}

func newBanNode(t testing.TB, name string, change func(*Config)) *banNode {
	t.Helper()
	table := &banTable{name: "bans", most: time.Hour, bans: map[sketch.Digest]Ban{}}
	n := newTestNode(t, name, 4, func(c *Config) {
		c.Banners, c.AcceptBans = []Banner{table}, true
		if change != nil {
			change(c)
		}
	})
	return &banNode{n.State, table}
}

// ban has the node report a ban of its own.
func (n *banNode) ban(client uint64, left, now time.Duration) {
	n.Banned(n.table.Identity(), Ban{Digest: testDigest(client), Name: fmt.Sprint(client), Left: left, Times: 2}, now)
}

func (n *banNode) unban(client uint64) { n.Unbanned(n.table.Identity(), testDigest(client), 0, 0) }

// tells returns copies of the packets of a tick.
func (n *banNode) tells(now time.Duration) (packets [][]byte) {
	for _, p := range n.TellBans(now) {
		packets = append(packets, bytes.Clone(p))
	}
	n.Tick(now)
	return packets
}

func (n *banNode) hears(t testing.TB, packets [][]byte, now time.Duration) {
	t.Helper()
	for _, p := range packets {
		if r := n.Receive(p, now); r != nil {
			t.Fatalf("%v: %v", r.Reason, p)
		}
	}
}

// known returns nodes that have heard each other for long enough, at 10 s.
func known(t testing.TB, nodes ...*banNode) {
	t.Helper()
	for _, a := range nodes {
		for _, b := range nodes {
			a.Join(b.config.Node, b.config.Incarnation, 0)
		}
	}
	for now := time.Duration(0); now < 10*time.Second; now += time.Second {
		for _, a := range nodes {
			packets := a.tells(now)
			for _, b := range nodes {
				if a != b {
					b.hears(t, packets, now)
				}
			}
		}
	}
}

const (
	second = time.Second
	minute = time.Minute
)

// A ban is applied once, with what is left of it, and lifted where it was lifted.
func TestBanIsTold(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	a.ban(1, minute, 10*second)
	packets := a.tells(10*second + 100*time.Millisecond)
	for range 3 { // repeated
		b.hears(t, packets, 10*second+100*time.Millisecond)
	}
	want := Ban{Digest: testDigest(1), Name: "1", Left: minute - 100*time.Millisecond, Times: 2}
	if got := b.table.bans[testDigest(1)]; got != want || b.table.calls != 1 {
		t.Errorf("%+v after %d calls, want %+v", got, b.table.calls, want)
	}
	a.unban(1)
	b.hears(t, a.tells(11*second), 11*second)
	if len(b.table.bans) != 0 {
		t.Errorf("%+v: not lifted", b.table.bans)
	}
	b.hears(t, packets, 12*second) // late: it was lifted meanwhile
	if len(b.table.bans) != 0 {
		t.Errorf("%+v: back again", b.table.bans)
	}
	if st := b.Stats().Bans; st != (BanStats{Received: 1, Applied: 1, UnbansReceived: 1}) {
		t.Errorf("%+v", st)
	}
	if st := a.Stats().Bans; st != (BanStats{Sent: 1, UnbansSent: 1}) {
		t.Errorf("%+v", st)
	}
}

// A packet that arrives late, or is replayed, tells of so much less time left; of none at
// all in the end.
func TestLateBans(t *testing.T) {
	t.Parallel()
	a := newBanNode(t, "a", nil)
	b, c, d := newBanNode(t, "b", nil), newBanNode(t, "c", nil), newBanNode(t, "d", nil)
	known(t, a, b, c, d)
	a.ban(1, minute, 10*second)
	packets := a.tells(10 * second)
	b.hears(t, packets, 30*second)
	c.hears(t, packets, 10*second+time.Hour)
	d.hears(t, a.tells(time.Hour), time.Hour) // the clock of a goes on
	d.hears(t, packets, time.Hour)
	if left := b.table.bans[testDigest(1)].Left; left != 40*second {
		t.Errorf("%v left", left)
	}
	if len(c.table.bans)+len(d.table.bans) != 0 {
		t.Error("a ban that has ended was applied")
	}
}

// A node that has just started does not believe the first packets, which may be replayed,
// before it has heard their sender for a while.
func TestReplayAtStart(t *testing.T) {
	t.Parallel()
	a, b, c := newBanNode(t, "a", nil), newBanNode(t, "b", nil), newBanNode(t, "c", nil)
	var old [][]byte // from the ban on
	for now := time.Duration(0); now < minute; now += second {
		if now == 20*second {
			a.ban(1, 25*second, now)
		}
		if packets := a.tells(now); now >= 20*second && now < 40*second {
			old = append(old, packets...)
		}
	}
	b.Join("a", 1, time.Hour)
	c.Join("a", 1, time.Hour)
	for i := range 60 { // the recording, at its pace, and the node itself
		now := time.Hour + time.Duration(i)*second
		told := a.tells(minute + time.Duration(i)*second)
		if i < len(old) {
			b.hears(t, old[i:i+1], now)
		}
		b.hears(t, told, now)
		if i%4 == 0 && i < len(old) { // it has been heard for long, and little
			c.hears(t, old[:1], now)
		}
		if i > 4 {
			c.hears(t, told, now)
		}
	}
	if b.table.calls+c.table.calls != 0 {
		t.Errorf("%d and %d bans of a minute ago", b.table.calls, c.table.calls)
	}
}

// Replays date nothing, even if for long there is nothing else.
func TestReplaysOnly(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	a.ban(1, 20*second, 10*second)
	packets := a.tells(10 * second)
	for now := 40 * second; now < 5*minute; now += second {
		b.hears(t, packets, now)
	}
	if b.table.calls != 0 {
		t.Error("a ban that has ended was applied")
	}
}

// A clock that is slower than another one by a twentieth, for an hour, costs a ban no more
// than a second of its time, not three minutes.
func TestClocksDrift(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	theirs := func(now time.Duration) time.Duration { return now - now/20 }
	for now := 20 * second; now < time.Hour; now += second {
		b.hears(t, a.tells(theirs(now)), now)
	}
	a.ban(1, minute, theirs(time.Hour))
	b.hears(t, a.tells(theirs(time.Hour)), time.Hour)
	if left := b.table.bans[testDigest(1)].Left; left < minute-2*clockWindow/20 || left > minute {
		t.Errorf("%v left", left)
	}
}

// An operator's word here stands until there is a new ban.
func TestUnbanHereStands(t *testing.T) {
	t.Parallel()
	a, b, c := newBanNode(t, "a", nil), newBanNode(t, "b", nil), newBanNode(t, "c", nil)
	known(t, a, b, c)
	a.ban(1, 2*minute, 10*second)
	c.ban(1, minute, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	b.hears(t, c.tells(10*second), 10*second)
	if b.table.bans[testDigest(1)].Left != 2*minute {
		t.Errorf("%+v", b.table.bans)
	}
	b.table.EndBan(testDigest(1))
	b.unban(1)
	for now := 11 * second; now < 40*second; now += second {
		b.hears(t, a.tells(now), now)
		b.hears(t, c.tells(now), now)
		if now == 30*second {
			a.unban(1) // b has nothing to take back, and nothing to go on with
		}
	}
	if len(b.table.bans) != 0 {
		t.Errorf("%+v: a repetition undid what an operator did", b.table.bans)
	}
	if told := b.tells(40 * second); b.Stats().Bans.UnbansSent != 0 {
		t.Errorf("b tells the end of a ban that was not its own: %q", told)
	}
	a.ban(1, minute, 41*second)
	b.hears(t, a.tells(41*second), 41*second)
	if b.table.bans[testDigest(1)].Left != minute {
		t.Errorf("%+v: a new ban was not applied", b.table.bans)
	}
}

// Where several nodes have banned a client, one that takes its ban back leaves those of the
// others, and that of this node itself.
func TestLiftLeavesOthers(t *testing.T) {
	t.Parallel()
	a, b, c := newBanNode(t, "a", nil), newBanNode(t, "b", nil), newBanNode(t, "c", nil)
	known(t, a, b, c)
	left := func() time.Duration { return b.table.bans[testDigest(1)].Left }
	a.ban(1, 3*minute, 10*second)
	c.ban(1, 2*minute, 10*second)
	b.table.own = []Ban{{Digest: testDigest(1), Left: minute, Name: "1"}}
	b.table.bans[testDigest(1)] = b.table.own[0]
	b.ban(1, minute, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	b.hears(t, c.tells(10*second), 10*second)
	if left() != 3*minute {
		t.Errorf("%v left", left())
	}
	a.ban(2, minute, 10*second)
	c.ban(2, minute-second, 10*second)
	b.hears(t, a.tells(11*second), 11*second)
	b.hears(t, c.tells(11*second), 11*second)
	calls := b.table.calls
	c.unban(2)
	b.hears(t, c.tells(12*second), 12*second)
	if b.table.calls != calls || b.table.bans[testDigest(2)].Left == 0 {
		t.Error("a ban that another node goes on with was touched")
	}
	a.unban(1)
	b.hears(t, a.tells(20*second), 20*second)
	if want := 2*minute - 10*second; left() != want {
		t.Errorf("%v left, want %v", left(), want)
	}
	c.unban(1)
	b.hears(t, c.tells(20*second), 20*second)
	if left() != minute {
		t.Errorf("%v left of its own", left())
	}
	if got := b.table.bans[testDigest(1)].Name; got != "1" {
		t.Errorf("it is called %q", got)
	}
}

// What an operator has ended is ended everywhere, also where neither that nor a short ban that
// followed was heard.
func TestUnheardShortBanAfterUnban(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	a.ban(1, time.Hour, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	a.unban(1)
	a.tells(11 * second)
	a.ban(1, second, 12*second)
	for now := 12 * second; now < 15*second; now += second / 2 {
		a.tells(now)
	}
	for now := 15 * second; now < 22*second; now += second {
		b.hears(t, a.tells(now), now)
	}
	if left := b.table.bans[testDigest(1)].Left; left != 0 {
		t.Errorf("%v left", left)
	}
	if a.tells(2 * time.Hour); len(a.bans.list) != 0 {
		t.Errorf("%+v is kept", a.bans.list)
	}
}

// A ban that follows one that an operator has ended counts, even if it is shorter and nobody
// has heard of the end.
func TestShorterBanAfterUnban(t *testing.T) {
	t.Parallel()
	a, b := newBanNode(t, "a", nil), newBanNode(t, "b", nil)
	known(t, a, b)
	a.ban(1, time.Hour, 10*second)
	b.hears(t, a.tells(10*second), 10*second)
	a.unban(1)
	a.ban(1, minute, 11*second)
	b.hears(t, a.tells(11*second), 11*second)
	if got := b.table.bans[testDigest(1)].Left; got != minute {
		t.Errorf("%v left", got)
	}
}
