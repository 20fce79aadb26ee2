package delta

import (
	"fmt"
	"testing"
	"time"
)

// benchNode has a table of 8192 slots, all live, and traffic on them.
func benchNode(b *testing.B, name string) *testNode {
	b.Helper()
	n := newTestNode(b, name, 8192, nil)
	for i := range uint64(40_000) {
		n.rule.hit(i, 1+i%100)
	}
	return n
}

// BenchmarkTick: what a full table of one rule costs at each interval.
func BenchmarkTick(b *testing.B) {
	a := benchNode(b, "a")
	rng := newRand(1)
	now := time.Duration(0)
	bytes := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for range 2000 {
			a.rule.talkers.Add(testDigest(rng.Uint64N(40_000)), 1)
		}
		now += tick
		b.StartTimer()
		for _, p := range a.Tick(now) {
			bytes += len(p)
		}
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/tick")
}

// BenchmarkReceive: what a tick of one peer costs, by what it contains.
func BenchmarkReceive(b *testing.B) {
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			a, peer := benchNode(b, "a"), newTestNode(b, "b", 8192, nil)
			peer.knows(a)
			rng := newRand(1)
			now := time.Duration(0)
			var packets [][]byte
			entries := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				if !known || packets == nil {
					b.StopTimer()
					for range 2000 {
						a.rule.talkers.Add(testDigest(rng.Uint64N(40_000)), 1)
					}
					packets = a.tick(now)
					b.StartTimer()
				}
				now += tick
				for _, p := range packets {
					if err := peer.Receive(p, now); err != nil {
						b.Fatal(err)
					}
				}
			}
			entries = peer.Stats().MergedSlots
			b.ReportMetric(float64(entries)/float64(b.N), "merged/tick")
		})
	}
}

// BenchmarkTop: what a question for the talkers costs with 32 nodes.
func BenchmarkTop(b *testing.B) {
	n := newTestNode(b, "a", 1024, nil)
	for i := range 31 {
		o := newTestNode(b, fmt.Sprint("n", i), 1024, nil)
		n.knows(o)
		for now := range time.Duration(200) {
			for c := range uint64(1000) {
				o.rule.hit(c, 1)
			}
			n.mustReceive(b, o.tick(now*tick), now*tick)
		}
	}
	for b.Loop() {
		n.Top(20, 20*time.Second)
	}
}
