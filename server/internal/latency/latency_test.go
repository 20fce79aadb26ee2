package latency

import (
	"sync"
	"testing"
	"time"
)

// Each duration is in the first bucket whose bound is not below it, as Prometheus has it.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for i, bound := range Bounds {
		if i > 0 && Bounds[i-1] >= bound {
			t.Fatalf("bound %v is not above %v", bound, Bounds[i-1])
		}
		var h Histogram
		h.Observe(bound)
		h.Observe(bound + 1)
		if c := h.Counts(); c.Buckets[i] != 1 || c.Buckets[i+1] != 1 || c.Sum != 2*bound+1 {
			t.Errorf("%v and 1 ns more: %v", bound, c)
		}
	}
	if first, last := Bounds[0], Bounds[len(Bounds)-1]; first != time.Microsecond || last != 10*time.Second {
		t.Errorf("from %v to %v", first, last)
	}
	var h Histogram
	h.Observe(-time.Second)
	if c := h.Counts(); c.Buckets[0] != 1 || c.Sum != 0 {
		t.Errorf("a negative duration: %v", c)
	}
}

func TestConcurrentObservations(t *testing.T) {
	t.Parallel()
	var h Histogram
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
			}
		})
	}
	wg.Wait()
	sum, once := h.Counts(), h.Counts()
	sum.Add(&once)
	if sum.Buckets[9] != 8000 || sum.Sum != 8*time.Second {
		t.Errorf("%v", sum)
	}
}

// One request of each round is sampled, and each kind of two or three that take turns is.
func TestSampler(t *testing.T) {
	t.Parallel()
	for _, kinds := range []int{1, 2, 3, 64} {
		s := NewSampler()
		seen := map[int]int{}
		for i := range Every * 64 * 10 {
			if s.Next() {
				seen[i%kinds]++
			}
		}
		sum := 0
		for _, n := range seen {
			sum += n
		}
		if len(seen) != kinds || sum != 640 {
			t.Errorf("%d kinds: %d samples of %d kinds", kinds, sum, len(seen))
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	var h Histogram
	w := Begin(time.Now().Add(-time.Minute), &h)
	w.Stop()
	w.Stop()
	new(Watch).Stop()
	if c := h.Counts(); c.Buckets[len(Bounds)] != 1 || c.Sum < time.Minute {
		t.Errorf("%v", c)
	}
}
