// Package heap is a binary heap in a slice. Other than container/heap it keeps
// elements as they are: there they are boxed in interfaces, which costs an
// allocation for each one.
package heap

// Push adds x to h, whose first element is the least by less, and returns the
// longer heap.
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

// Pop removes the first element of h, which is the least, and returns the rest.
// What it leaves behind the end of the rest is zero.
func Pop[E any](h []E, less func(a, b *E) bool) (rest []E) {
	last := len(h) - 1
	h[0] = h[last]
	clear(h[last:])
	Fix(h[:last], less)
	return h[:last]
}

// Fix puts the first element, which has changed, where it belongs.
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
