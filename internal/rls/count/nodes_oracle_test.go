package count

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/testkit"
)

// where is a window of a counter, as the oracle counts it.
type where struct {
	key    string
	unit   descriptor.Unit
	window uint64
}

// oracle counts what each node was asked to.
type oracle struct {
	*cluster

	units []descriptor.Unit
	hits  []map[where]uint64
}

func (o *oracle) at(key int, u descriptor.Unit) where {
	return where{fmt.Sprint(key), u, window(o.now, u)}
}

func (o *oracle) all(w where) (all uint64) {
	for _, m := range o.hits {
		all += m[w]
	}
	return all
}

// add hits at a node, whose count is at least its own, and at most that of all.
func (o *oracle) add(t *testing.T, i int, w where, n uint64) {
	t.Helper()
	o.hits[i][w] += n
	if got := o.hit(t, i, w.unit, w.key, n); got < o.hits[i][w] || got > o.all(w) {
		t.Fatalf("node %d, %v: %d, want %d to %d", i, w, got, o.hits[i][w], o.all(w))
	}
}

// TestNodesAgainstOracle: whatever becomes of packets, no node counts more than there were
// hits, nor less than its own. A hit that is told tells all that were lost before it.
func TestNodesAgainstOracle(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	const nodes, keys = 4, 20
	for range testkit.Size(20, 1000) {
		c := newCluster(t, nodes, func(n *NodesConfig) { n.MaxBytes, n.PacketSize = 600, 300 })
		o := &oracle{c, []descriptor.Unit{descriptor.Second, descriptor.Minute, descriptor.Day}, nil}
		for range nodes {
			o.hits = append(o.hits, map[where]uint64{})
		}
		var lost [][]byte // or late
		for range 300 {
			switch i := r.IntN(nodes); r.IntN(10) {
			case 0:
				c.now += time.Duration(r.Int64N(int64(2 * time.Second)))
			case 1, 2:
				packets, _ := c.nodes[i].Tick()
				for _, p := range packets {
					lost = append(lost, slices.Clone(p))
					if j := r.IntN(nodes); j != i {
						c.nodes[j].Receive(p)
					}
				}
			case 3:
				if len(lost) > 0 {
					c.nodes[i].Receive(lost[r.IntN(len(lost))])
				}
			default:
				o.add(t, i, o.at(r.IntN(keys), o.units[r.IntN(len(o.units))]), uint64(r.IntN(3)))
			}
		}
		for i := range nodes {
			for w := range o.hits[i] {
				if w.window == window(c.now, w.unit) {
					o.add(t, i, w, 1)
				}
			}
		}
		for range repeatAfter {
			c.tick(t)
		}
		for key := range keys {
			for _, u := range o.units {
				for i, w := 0, o.at(key, u); i < nodes; i++ {
					if got := c.hit(t, i, u, w.key, 0); got != o.all(w) {
						t.Fatalf("node %d, %v: %d in the end, want %d", i, w, got, o.all(w))
					}
				}
			}
		}
	}
}
