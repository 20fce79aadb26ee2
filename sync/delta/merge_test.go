package delta

import (
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

const tick = 100 * time.Millisecond

// Packets are dropped, doubled and handed over in any order; once a full pass
// has arrived the mirror is the table, and nothing was charged twice.
func TestMergeInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range testkit.Size(uint64(40), 200) {
		rng := newRand(seed)
		slots, clients := 16+rng.IntN(200), 1+rng.IntN(300)
		a, b := newTestNode(t, "a", slots, small), newTestNode(t, "b", slots, small)
		b.knows(a)
		counted := map[uint64]uint64{}
		var way [][]byte
		now := time.Duration(0)
		for range 60 {
			now += tick
			for range rng.IntN(50) {
				c, n := uint64(rng.IntN(clients)), 1+rng.Uint64N(5)
				a.rule.hit(c, n)
				counted[testDigest(c).Pos] += n
			}
			if rng.IntN(20) == 0 {
				a.rule.talkers.Turn()
			}
			for _, p := range a.tick(now) {
				for range []int{1, 1, 1, 0, 2}[rng.IntN(5)] {
					way = append(way, p)
				}
			}
			rng.Shuffle(len(way), func(i, j int) { way[i], way[j] = way[j], way[i] })
			some := rng.IntN(len(way) + 1)
			b.mustReceive(t, way[:some], now)
			way = way[some:]
		}
		passes := 0
		for ; b.mirrorsTable(a) != nil; passes++ {
			now += tick
			b.mustReceive(t, a.tick(now), now)
			if passes > a.fullPass() {
				t.Fatalf("seed %d: %d ticks after the last fault: %v", seed, passes, b.mirrorsTable(a))
			}
		}
		b.mustReceive(t, way, now) // what was still on its way changes nothing
		if err := b.mirrorsTable(a); err != nil {
			t.Fatalf("seed %d: after late packets: %v", seed, err)
		}
		for pos, n := range b.rule.charged {
			if n > counted[pos] {
				t.Fatalf("seed %d: client %x was charged %d of %d units", seed, pos, n, counted[pos])
			}
		}
		if clients < slots/8 { // nobody lost a slot: nothing may be missing
			for pos, n := range counted {
				if b.rule.charged[pos] != n {
					t.Fatalf("seed %d: client %x was charged %d of %d units", seed, pos, b.rule.charged[pos], n)
				}
			}
		}
	}
}

// small makes for many packets and a pass of several ticks.
func small(c *Config) { c.PacketSize, c.MaxBytes = minPacketSize, 2*minPacketSize }

// fullPass is in how many ticks a sweep has sent every slot: a quarter of
// the budget goes to it.
func (n *testNode) fullPass() int {
	const entry = 13 + 4 + 6
	quarter := (n.config.MaxBytes - n.config.MaxBytes/n.config.PacketSize*(slack+minHeader+8)) / 4
	return n.rule.talkers.Slots()*entry/quarter + 2
}
