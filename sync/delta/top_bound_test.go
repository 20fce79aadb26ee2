package delta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// asked is the truth: what every client asked of every node, tick by tick.
type asked struct {
	at    time.Duration
	units map[string]uint64 // by key
}

// since is what a client asked for after a time.
func since(all []asked, key string, from time.Duration) (n uint64) {
	for _, a := range all {
		if a.at > from {
			n += a.units[key]
		}
	}
	return n
}

func count(all []map[string]uint64, client, units uint64) {
	for _, m := range all {
		m[fmt.Sprint("c", client)] += units
	}
}

// deny is a denial of n units by a table of buckets.
func (n *testNode) deny(client, units uint64) {
	n.serial++
	if n.rule.talkers.Drawn(n.serial, units) {
		n.rule.talkers.Shed(testDigest(client), units)
	}
}

// TestTopHolds: whatever is sent to whom, Rate is never further from the truth
// than Error, for those listed and, where all are listed that have a slot, for
// those who are not. Tables are crowded, packets have no room, floods are noted by
// chance, slots change their clients, epochs end.
func TestTopHolds(t *testing.T) {
	t.Parallel()
	seeds := testkit.Size(uint64(4), 12)
	var checked, sampled, tight int
	for seed := range seeds {
		rng := newRand(seed)
		interval := []time.Duration{tick, tick, time.Second}[seed%3]
		change := func(c *Config) {
			if seed%4 == 1 {
				small(c)
			}
		}
		slots, clients := 16<<rng.IntN(4), uint64(8+rng.IntN(300))
		a, b := newTestNode(t, "a", slots, change), newTestNode(t, "b", slots, change)
		a.rule.epoch, b.rule.epoch = 10*time.Second, time.Duration(10+rng.IntN(20))*time.Second
		b.knows(a) // and receives before its own tick: nothing is on its way
		zipf := rand.NewZipf(rng, 1.3, 2, clients-1)
		floods := 1 << rng.IntN(18) // denials a tick
		var truth [2][]asked
		for i := range 450 {
			now := time.Duration(i+1) * interval
			if i%100 == 60 {
				zipf = rand.NewZipf(rng, 1.1+rng.Float64(), 2, clients-1) // others
				floods = 1 << rng.IntN(18)
			}
			units := [2]map[string]uint64{{}, {}} // of a, of both
			for i, n := range []*testNode{a, b} {
				for range rng.IntN(200) {
					c, u := zipf.Uint64(), 1+rng.Uint64N(3)
					n.rule.hit(c, u)
					count(units[i:], c, u)
				}
				if i%7 > 4 {
					continue // floods come in pulses
				}
				for range rng.IntN(floods) / 16 {
					c, u := zipf.Uint64(), uint64(1)
					if rng.IntN(100) == 0 {
						u = 1 + rng.Uint64N(500)
					}
					n.deny(c, u)
					count(units[i:], c, u)
				}
			}
			truth[0], truth[1] = append(truth[0], asked{now, units[0]}), append(truth[1], asked{now, units[1]})
			b.mustReceive(t, a.tick(now), now)
			b.tick(now)
			if i < 20 || i%7 > 0 && i%10 > 0 {
				continue
			}
			for i, n := range []*testNode{a, b} {
				truth := truth[i]
				window := max(now-n.clock.marked[0], time.Second)
				listed := map[string]bool{}
				list := n.Top(1000, now)
				d, others := n.local.Doubt(0), peers{n.State, 0}.Doubt(0)
				d = toptalkers.Doubt{Units: d.Units + others.Units, Grain: max(d.Grain, others.Grain)}
				for _, c := range list {
					listed[c.Key] = true
					checked++
					if d.Grain > 1 {
						sampled++
					} else if c.Error == 0 {
						tight++
					}
					want := float64(since(truth, c.Key, n.clock.marked[0])) / window.Seconds()
					if math.Abs(want-c.Rate) > c.Error+1e-6 {
						t.Fatalf("seed %d, at %v at %s: %s sends %.1f/s, listed with %.1f ± %.1f; %+v", seed, now, n.config.Node, c.Key, want, c.Rate, c.Error, d)
					}
				}
				for c := range clients {
					key := fmt.Sprint("c", c)
					units := since(truth, key, n.clock.marked[0])
					if most := d.Of(0); !listed[key] && float64(units) > most {
						t.Fatalf("seed %d, at %v at %s: %s sent %d and is not listed, at most %.1f may be missing; %+v", seed, now, n.config.Node, key, units, most, d)
					}
				}
			}
		}
	}
	t.Logf("%d rates checked, %d of sampled denials, %d exact", checked, sampled, tight)
	if checked < 10_000 || sampled < checked/10 || tight < checked/1000 {
		t.Errorf("%d rates checked, %d of sampled denials, %d exact: that is little", checked, sampled, tight)
	}
}
