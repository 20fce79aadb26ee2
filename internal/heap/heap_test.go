package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Elements come out in order, whatever went in and was taken out in between.
func TestHeap(t *testing.T) {
	t.Parallel()
	less := func(a, b *int) bool { return *a < *b }
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var h, want []int
		for range rng.IntN(200) {
			if len(h) > 0 && rng.IntN(3) == 0 {
				if h[0] != slices.Min(want) {
					t.Fatalf("the first is %d, want %d", h[0], slices.Min(want))
				}
				want = slices.Delete(want, slices.Index(want, h[0]), slices.Index(want, h[0])+1)
				if x := rng.IntN(50); x%2 == 0 {
					h[0], want = x, append(want, x)
					Fix(h, less)
					continue
				}
				h = Pop(h, less)
				continue
			}
			x := rng.IntN(50)
			h, want = Push(h, x, less), append(want, x)
		}
		slices.Sort(want)
		var got []int
		for len(h) > 0 {
			got = append(got, h[0])
			h = Pop(h, less)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// What was taken out is not held in the memory behind the heap.
func TestPopLetsGo(t *testing.T) {
	t.Parallel()
	less := func(a, b **int) bool { return **a < **b }
	var h []*int
	for i := range 8 {
		h = Push(h, &i, less)
	}
	for len(h) > 0 {
		h = Pop(h, less)
	}
	for i, p := range h[:8] {
		if p != nil {
			t.Errorf("element %d is still there", i)
		}
	}
}
