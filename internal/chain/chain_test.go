package chain

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

type version struct {
	node *Node[version, []int]
	id   int
	_    [64]byte // too large to share its memory with others
}

func joined(first, second *[]int) *[]int {
	way := append(slices.Clone(*first), *second...)
	return &way
}

func newVersion(id int, old *version) *version {
	v := &version{id: id}
	v.node = New(v, joined)
	if old != nil {
		v.node.Follow(old.node, &[]int{id})
	}
	return v
}

// gone waits until a version is collected.
func gone(t *testing.T, w weak.Pointer[version]) {
	t.Helper()
	testkit.Eventually(t, "it is let go", func() bool { runtime.GC(); return w.Value() == nil })
}

// nodes is how many nodes n holds.
func nodes(n *Node[version, []int]) int {
	seen := map[*Node[version, []int]]bool{}
	for all := []*Node[version, []int]{n}; len(all) > 0; {
		n, all = all[0], all[1:]
		if n == nil || seen[n] {
			continue
		}
		seen[n] = true
		all = append(all, n.prev)
		if e := n.next.Load(); e != nil {
			all = append(all, e.to)
		}
	}
	return len(seen)
}

// TestChains makes random trees of versions, of which the last that followed one counts, and has
// any of them be collected. Next of each must be what a model without any collection says: the
// first one alive on its way, and all ids on the way there.
func TestChains(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		all := []*version{newVersion(0, nil)}
		after := map[int]int{} // the last that followed
		for range 40 {
			var alive []int
			for i, v := range all {
				if v != nil {
					alive = append(alive, i)
				}
			}
			at := alive[len(alive)-1]
			if rng.IntN(4) == 0 {
				at = alive[rng.IntN(len(alive))]
			}
			switch i := alive[rng.IntN(len(alive))]; {
			case rng.IntN(3) == 0 && len(alive) > 1:
				w := weak.Make(all[i])
				all[i] = nil
				gone(t, w)
			case rng.IntN(20) == 0:
				all[i].node.End()
				delete(after, i)
			default:
				after[at] = len(all)
				all = append(all, newVersion(len(all), all[at]))
			}
			for i, v := range all {
				if v == nil || rng.IntN(3) == 0 { // not always asked
					continue
				}
				var way []int
				next, ok := after[i]
				for ; ok; next, ok = after[next] {
					if way = append(way, next); all[next] != nil {
						break
					}
				}
				got, gotWay := v.node.Next()
				switch {
				case !ok && got != nil:
					t.Fatalf("seed %d: after %d comes %d, want none", seed, i, got.id)
				case ok && (got != all[next] || !slices.Equal(*gotWay, way)):
					t.Fatalf("seed %d: after %d comes %v by %v, want %d by %v", seed, i, got, gotWay, next, way)
				}
			}
		}
	}
}

// However many versions there were, the first one, which does nothing meanwhile, and the last one
// hold those that are alive and no others.
func TestChainsDoNotGrow(t *testing.T) {
	t.Parallel()
	first := newVersion(0, nil)
	last, between := first, (*version)(nil)
	for id := 1; id <= 3000; id++ {
		w := weak.Make(last)
		if last = newVersion(id, last); id == 1000 {
			between = last
		}
		if id%100 != 0 {
			continue
		}
		gone(t, w)
		last = newVersion(id, last)
		if n := nodes(first.node); n > 5 {
			t.Fatalf("%d nodes after %d versions", n, id)
		}
	}
	next, way := first.node.Next()
	if next != between || len(*way) < 1000 {
		t.Errorf("after the first comes %v, want the 1000th", next)
	}
	isLast := func() bool { next, _ := between.node.Next(); return next == last }
	testkit.Eventually(t, "after that comes the last", func() bool { runtime.GC(); return isLast() })
	runtime.KeepAlive(first)
}

// One that was made and dropped leaves nothing behind, and another can follow.
func TestDropped(t *testing.T) {
	t.Parallel()
	first := newVersion(0, nil)
	second := newVersion(1, first)
	gone(t, weak.Make(newVersion(2, second)))
	if next, _ := first.node.Next(); next != second {
		t.Errorf("after the first comes %v", next)
	}
	if next, _ := second.node.Next(); next != nil || second.node.Edge() != nil {
		t.Errorf("after the second comes %v", next)
	}
	third := newVersion(3, second)
	w := weak.Make(second)
	second = nil
	gone(t, w)
	if next, _ := first.node.Next(); next != third {
		t.Errorf("after the first comes %v", next)
	}
	runtime.KeepAlive(third)
}
