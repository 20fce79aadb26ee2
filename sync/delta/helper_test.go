package delta

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/marks"
	"github.com/fastlimit/fastlimit/sketch"
)

// testRule counts exactly what is charged.
type testRule struct {
	name    string
	talkers *sketch.TopTalkers
	epoch   time.Duration
	charged map[uint64]uint64 // by position
}

func (r *testRule) Identity() uint64         { return clusterHash(r.name) }
func (r *testRule) ChargePeer(pos, n uint64) { r.charged[pos] += n }
func (r *testRule) TopTalkers() sketch.RuleTalkers {
	return sketch.RuleTalkers{Table: r.talkers, Rule: r.name, Epoch: r.epoch, Text: func(b []byte) string { return string(b) }}
}

func (r *testRule) total() (n uint64) {
	for _, v := range r.charged {
		n += v
	}
	return n
}

// hit counts n units of a client, as a limiter does.
func (r *testRule) hit(client, n uint64) {
	d := testDigest(client)
	if !r.talkers.Add(d, n) {
		r.talkers.Insert(d, n, fmt.Appendf(nil, "c%d", client))
	}
}

// testDigest spreads clients over the sets.
func testDigest(client uint64) sketch.Digest {
	var h sketch.Hasher
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], client)
	return h.Bytes(b[:])
}

func newTestRule(t testing.TB, name string, slots int) *testRule {
	t.Helper()
	h, err := sketch.NewTopTalkers(slots)
	if err != nil {
		t.Fatal(err)
	}
	return &testRule{name: name, talkers: h, epoch: time.Hour, charged: map[uint64]uint64{}}
}

// testNode is a State with one rule.
type testNode struct {
	*State
	rule   *testRule
	serial uint64 // of denials
	clock  markClock
}

// Tick is State's, and has the clock of the test follow.
func (n *testNode) Tick(now time.Duration) [][]byte {
	n.clock.tick(now, n.rule.epoch)
	return n.State.Tick(now)
}

func newTestNode(t testing.TB, name string, slots int, change func(*Config)) *testNode {
	t.Helper()
	r := newTestRule(t, "per-ip", slots)
	c := Config{Cluster: "test", Node: name, Incarnation: 1, Rules: []Rule{r}}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &testNode{State: s, rule: r}
}

// knows makes n a member that b believes.
func (n *testNode) knows(b *testNode) { n.Join(b.config.Node, b.config.Incarnation, 0) }

// tick returns copies of the packets.
func (n *testNode) tick(now time.Duration) (packets [][]byte) {
	for _, p := range n.Tick(now) {
		packets = append(packets, append([]byte(nil), p...))
	}
	return packets
}

func (n *testNode) mustReceive(t testing.TB, packets [][]byte, now time.Duration) {
	t.Helper()
	for _, p := range packets {
		if err := n.Receive(p, now); err != nil {
			t.Fatal(err)
		}
	}
}

// mirrors checks that n's mirror of b is b's table.
func (n *testNode) mirrorsTable(b *testNode) error {
	m := n.State.mirrors[b.config.Node]
	if m == nil {
		return fmt.Errorf("%s has no mirror of %s", n.config.Node, b.config.Node)
	}
	if err := sameTable(b.rule.talkers, &m.tables[0]); err != nil {
		return fmt.Errorf("%s's mirror of %s: %w", n.config.Node, b.config.Node, err)
	}
	return nil
}

// sameTable checks that a mirror has all that is live in a table.
func sameTable(h *sketch.TopTalkers, mirror *mirrorTable) error {
	var s sketch.Slot
	for i := range h.Slots() {
		h.Read(i, &s)
		if !s.Live {
			continue
		}
		got := mirror.slot(uint64(i))
		name := string(got.name[:got.nameLen])
		if got.gen != s.Gen || got.count != s.Count || got.pos != s.Pos || got.shed != s.Shed || name != string(s.Name[:s.NameLen]) {
			return fmt.Errorf("slot %d: gen %d count %d shed %d name %q, want %d %d %d %q",
				i, got.gen, got.count, got.shed, name, s.Gen, s.Count, s.Shed, s.Name[:s.NameLen])
		}
	}
	return nil
}

// markClock is when a node sets marks and ends an epoch, by its ticks alone.
type markClock struct {
	began  time.Duration    // the epoch
	marked [2]time.Duration // the mark before the last one, and the last
	ticks  int
}

func (c *markClock) tick(now, epoch time.Duration) {
	c.ticks++
	if c.ticks == 1 {
		c.began, c.marked = now, [2]time.Duration{now, now}
		return
	}
	if now-c.marked[1] >= marks.Every {
		c.marked = [2]time.Duration{c.marked[1], now}
	}
	if now-c.began >= epoch && c.began <= c.marked[0] {
		c.began = now
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }
