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

// Denied units count as asked for, a client without a name has its digest, and
// the error is what all tables hide.
func TestTopShedAndError(t *testing.T) {
	t.Parallel()
	a, b := newTestNode(t, "a", 4, nil), newTestNode(t, "b", 4, nil)
	a.rule.epoch, b.rule.epoch = 10*time.Second, 10*time.Second
	b.knows(a)
	now := time.Duration(0)
	for range 110 {
		now += tick
		for c := range uint64(4) {
			a.rule.hit(c, 10-c)
		}
		a.rule.hit(5, 1)
		a.rule.heavy.Shed(testDigest(0), 64)
		b.mustReceive(t, a.tick(now), now)
		b.tick(now)
	}
	top := b.Top(1, now)
	if len(top) != 1 || top[0].Rate < 650 || top[0].Rate > 800 {
		t.Errorf("%+v, want 740/s", top)
	}
	if hidden := a.Stats().Rules[0].Hidden; top[0].Error != float64(hidden)/10 || hidden == 0 {
		t.Errorf("error %v, want %d in 10 s", top[0].Error, hidden)
	}
	b.mirrors["a"].tables[0].all(func(_ int, s *mirrorSlot) { s.nameLen = 0 })
	if key := b.Top(1, now)[0].Key; len(key) != 17 || key[0] != '?' {
		t.Errorf("key %q", key)
	}
}
