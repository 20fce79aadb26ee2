package delta

import (
	"slices"
	"testing"
	"time"
)

// Rates of all nodes add up, whoever is asked; what a node counted before it
// was met, or while it was away, is no rate.
func TestTop(t *testing.T) {
	t.Parallel()
	var nodes []*testNode
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, newTestNode(t, name, 64, nil))
	}
	now := time.Duration(0)
	second := func(met int, seconds int, rates ...uint64) {
		for range seconds * 10 {
			now += tick
			for i, n := range nodes {
				for c, r := range rates {
					if c != i+10 {
						n.rule.hit(uint64(c), r/10)
					}
				}
				packets := n.tick(now)
				for j, o := range nodes {
					if j != i && i < met && j < met {
						o.knows(n)
						o.mustReceive(t, packets, now)
					}
				}
			}
		}
	}
	check := func(n *testNode, want ...float64) {
		t.Helper()
		top := n.Top(len(want), now)
		for i, w := range want {
			if i >= len(top) || top[i].Rate < 0.9*w || top[i].Rate > 1.1*w {
				t.Errorf("at %s, %v: %+v, want rates %v", n.config.Node, now, top, want)
				return
			}
		}
		if top[0].Key != "c0" || top[0].Rule != "per-ip" || !slices.IsSorted(top[0].Nodes) {
			t.Errorf("%+v", top[0])
		}
	}
	never := func(n *testNode, above float64) {
		t.Helper()
		if top := n.Top(1, now); top[0].Rate > above {
			t.Errorf("at %v: %+v, want at most %v", now, top, above)
		}
	}
	second(2, 30, 100, 50)
	check(nodes[0], 200, 100)
	check(nodes[1], 200, 100)
	check(nodes[2], 100, 50)
	second(3, 3, 100, 50)
	never(nodes[0], 300) // c was met, and what it counted before is no rate
	second(3, 12, 100, 50)
	for _, n := range nodes {
		check(n, 300, 150)
	}
	second(0, 20, 100, 50) // apart
	check(nodes[0], 100, 50)
	second(3, 2, 100, 50)
	never(nodes[0], 300) // what piled up comes at once
	second(3, 18, 100, 50)
	check(nodes[0], 300, 150)
	if got := nodes[0].Top(1, now)[0].Nodes; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("nodes %v", got)
	}
	nodes[0].Leave("c", now)
	check(nodes[0], 200, 100)
	second(2, 12, 0, 0)
	if top := nodes[0].Top(5, now); len(top) != 0 {
		t.Errorf("after silence: %+v", top)
	}
}

// Denied units count as requested, whether peers have sent them or not, and a client
// without a name has its digest.
func TestTopShed(t *testing.T) {
	t.Parallel()
	a, b := newTestNode(t, "a", 4, nil), newTestNode(t, "b", 4, nil)
	b.knows(a)
	now := time.Duration(0)
	for range 110 {
		now += tick
		a.rule.hit(0, 10)
		a.rule.talkers.Shed(testDigest(0), 64)
		b.mustReceive(t, a.tick(now), now)
		b.tick(now)
	}
	top := b.Top(1, now)
	if len(top) != 1 || top[0].Rate < 739 || top[0].Rate > 741 || top[0].Denied < 639 || top[0].Denied > 641 || top[0].Error != 0 {
		t.Errorf("%+v, want 740/s, of which 640 denied", top)
	}
	for range 110 { // b denies it too
		now += tick
		a.rule.hit(0, 10)
		a.rule.talkers.Shed(testDigest(0), 64)
		b.rule.hit(0, 1)
		b.rule.talkers.Shed(testDigest(0), 9)
		b.mustReceive(t, a.tick(now), now)
		b.tick(now)
	}
	if top = b.Top(1, now); top[0].Rate < 839 || top[0].Rate > 841 || top[0].Denied < 729 || top[0].Denied > 731 {
		t.Errorf("%+v, want 840/s, of which 730 denied", top)
	}
	b.mirrors["a"].tables[0].all(func(_ int, s *mirrorSlot) { s.nameLen = 0 })
	b.rule.talkers.Turn()
	b.rule.talkers.Turn()
	if key := b.Top(1, now)[0].Key; len(key) != 17 || key[0] != '?' {
		t.Errorf("key %q", key)
	}
}

// What came at once when a node was met is in no rate, but may be: the error has
// it until it is out of the window. So it has what another node drew by chance.
func TestErrorHasWhatOthersTell(t *testing.T) {
	t.Parallel()
	b := newTestNode(t, "b", 64, nil)
	b.Join("a", 1, 0)
	b.Tick(0)
	e := entry{slot: 1, gen: 1, count: 1000, pos: 9, name: []byte("x")}
	b.mustReceive(t, [][]byte{at(1, hiding(0, 1, e))}, time.Second)
	e.count = 1100
	b.mustReceive(t, [][]byte{at(2, hiding(20, 1, e))}, 2*time.Second)
	if top := b.Top(1, 2*time.Second); len(top) != 1 || top[0].Rate != 50 || top[0].Error != 510 {
		t.Errorf("met a node: %+v, want 50 ± 510", top)
	}
	for now := 5 * time.Second; now <= 20*time.Second; now += 5 * time.Second {
		b.Tick(now)
	}
	e.count = 1200
	b.mustReceive(t, [][]byte{at(3, hiding(0, 1, e))}, 20*time.Second)
	if top := b.Top(1, 20*time.Second); len(top) != 0 {
		t.Errorf("after a silence: %+v", top)
	}
	b.Tick(25 * time.Second)
	b.Tick(30 * time.Second)
	e.count = 1300
	b.mustReceive(t, [][]byte{at(4, hiding(0, 1, e))}, 30*time.Second)
	b.Tick(35 * time.Second)
	b.Tick(40 * time.Second)
	e.count, e.shed = 1301, 640
	b.mustReceive(t, [][]byte{at(5, hiding(0, 64, e))}, 44*time.Second)
	if top := b.Top(1, 45*time.Second); len(top) != 0 {
		t.Errorf("after a silence: %+v", top)
	}
	e.count, e.shed = 1302, 1279
	b.mustReceive(t, [][]byte{at(6, hiding(0, 64, e))}, 45*time.Second)
	if top := b.Top(1, 45*time.Second); len(top) != 1 || top[0].Rate != 64 || top[0].Denied != 63.9 || top[0].Error < 64+200 {
		t.Errorf("drawn by chance: %+v, want 64 ± more than 264", top)
	}
}
