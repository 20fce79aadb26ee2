package engine

import (
	"sync/atomic"
	"testing"

	"github.com/fastlimit/fastlimit/limit"
)

// BenchmarkCounters measures counting a decision: in a stripe picked by the goroutine's stack, and in one
// counter shared by all cores. "alone" is one goroutine, "crowd" one per core.
func BenchmarkCounters(b *testing.B) {
	c := new(counters)
	var shared atomic.Uint64
	for _, w := range []struct {
		name string
		add  func()
	}{
		{"striped", func() { c.record(stackStripe(), limit.StageTable, false) }},
		{"shared", func() { shared.Add(1) }},
	} {
		b.Run(w.name+"/alone", func(b *testing.B) {
			for b.Loop() {
				w.add()
			}
		})
		b.Run(w.name+"/crowd", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					w.add()
				}
			})
		})
	}
}
