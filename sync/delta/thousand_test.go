//go:build !race

// Tests of many nodes: one would take half a minute under the race detector, the
// other takes 300 MB without it.

package delta

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TestAThousandNodes has one node listen to a thousand others, as the section
// "Large clusters" of docs/cluster.md configures it: 1024 slots, 4 KiB a second. It
// keeps up, knows all of them, and takes no more memory than the page says. A hundred
// show that by default.
func TestAThousandNodes(t *testing.T) {
	t.Parallel()
	const slots = 1024
	nodes, seconds := testkit.Size(100, 1000), testkit.Size(20, 60)
	thousand := func(c *Config) { c.MaxNodes, c.MaxBytes = nodes, 4<<10 }
	b := newTestNode(t, "b", slots, thousand)
	all := make([]*testNode, nodes)
	for i := range all {
		all[i] = newTestNode(t, fmt.Sprint("node-", i), slots, thousand)
		b.knows(all[i])
	}
	rng := newRand(1)
	var receiving time.Duration
	packets, now := 0, time.Duration(0)
	for second := range seconds {
		now += time.Second
		for _, a := range all {
			for range 100 {
				a.rule.hit(rng.Uint64N(2000)*rng.Uint64N(2000)/2000, 1)
			}
			mine := a.tick(now)
			start := time.Now()
			b.mustReceive(t, mine, now)
			receiving += time.Since(start)
			packets += len(mine)
		}
		if bytes := b.Stats().ReceivedBytes; bytes > uint64((second+1)*nodes*4<<10) {
			t.Fatalf("%d bytes in %d s", bytes, second+1)
		}
	}
	ticks := 0
	for ; ticks < all[0].fullPass(); ticks++ {
		now += time.Second
		for _, a := range all {
			b.mustReceive(t, a.tick(now), now)
		}
	}
	for _, a := range all {
		if err := b.mirrorsTable(a); err != nil {
			t.Fatal(err)
		}
	}
	st := b.Stats()
	if most := int64(nodes * slots * 116); st.MirrorBytes > most {
		t.Errorf("mirrors of %d bytes, at most %d", st.MirrorBytes, most)
	}
	start := time.Now()
	b.Top(20, now)
	top := time.Since(start)
	t.Logf("received %d packets and %d KB a second in %v, mirrors %d MB, %d ticks to know all, top in %v",
		packets/seconds, st.ReceivedBytes/uint64(seconds+ticks)/1000, receiving/time.Duration(seconds), st.MirrorBytes>>20, ticks, top)
}

// TestSimulationOf100 simulates 100 nodes, 40 by default.
func TestSimulationOf100(t *testing.T) {
	t.Parallel()
	for seed := range testkit.Size(uint64(1), 2) {
		synctest.Test(t, func(t *testing.T) {
			c := randomSim(newRand(seed^1<<41), testkit.Size(40, 100))
			c.interval, c.duration = 200*time.Millisecond, 8*time.Second
			simulate(t, c, seed)
		})
	}
}
