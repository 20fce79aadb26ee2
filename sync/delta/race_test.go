package delta

import (
	"sync"
	"testing"
	"time"
)

// Everything may be called at any time.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	a, b := newTestNode(t, "a", 64, nil), newTestNode(t, "b", 64, nil)
	a.rule.epoch = time.Second
	a.knows(b)
	b.knows(a)
	var wg sync.WaitGroup
	for g := range uint64(3) {
		wg.Go(func() {
			for i := range uint64(3000) {
				a.rule.hit(i%100*g, 1)
			}
		})
	}
	ticks := make(chan [][]byte)
	wg.Go(func() {
		defer close(ticks)
		for i := range 300 {
			ticks <- a.tick(time.Duration(i) * tick)
		}
	})
	for range 2 {
		wg.Go(func() {
			i := 0
			for packets := range ticks {
				i++
				for _, p := range packets {
					_ = b.Receive(p, time.Duration(i)*tick) // a leaves and joins
				}
				if i%10 == 0 {
					b.Leave("a", time.Duration(i)*tick)
					b.Join("a", 1, time.Duration(i)*tick)
				}
				b.Top(3, time.Duration(i)*tick)
				b.Stats()
				a.Stats()
			}
		})
	}
	wg.Wait()
	for range 20 {
		b.mustReceive(t, a.tick(time.Hour), time.Hour)
	}
	if err := b.mirrorsTable(a); err != nil {
		t.Error(err)
	}
}
