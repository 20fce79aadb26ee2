// Package heap is a binary min-heap in a slice. Unlike container/heap it does not
// box elements in interfaces, which would cost an allocation per element. Guard:
// TestNoAllocations of package delta.
package heap

// Push adds x to the heap h and returns the longer heap, whose first element is the
// least by less.
func Push[E any](h []E, x E, less func(a, b *E) bool) []E {
	h = append(h, x)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !less(&h[i], &h[parent]) {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
	return h
}

// Pop removes the first and least element of h and returns the rest. It zeroes the
// freed place, so that it keeps nothing alive.
func Pop[E any](h []E, less func(a, b *E) bool) (rest []E) {
	last := len(h) - 1
	h[0] = h[last]
	clear(h[last:])
	Fix(h[:last], less)
	return h[:last]
}

// Fix restores the heap order after the first element has changed.
func Fix[E any](h []E, less func(a, b *E) bool) {
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && less(&h[right], &h[least]) {
			least = right
		}
		if !less(&h[least], &h[i]) {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
