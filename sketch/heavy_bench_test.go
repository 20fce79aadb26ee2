package sketch

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkHeavy: the parts of what a hit costs in a table of 8192 slots.
func BenchmarkHeavy(b *testing.B) {
	const slots = 8192
	h, err := NewHeavy(slots)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	digests := make([]Digest, 1<<16)
	for i := range digests {
		digests[i] = Digest{Pos: rng.Uint64(), ID: rng.Uint64()}
	}
	name := make([]byte, 5)
	var held []Digest
	for _, d := range digests[:slots] {
		h.Insert(d, 1<<40, name)
		if h.Add(d, 1) {
			held = append(held, d)
		}
	}
	held = held[:slots/2] // some lost theirs meanwhile
	b.Run("Add", func(b *testing.B) {
		i := 0
		for b.Loop() {
			h.Add(held[i&(len(held)-1)], 1)
			i++
		}
	})
	b.Run("Insert", func(b *testing.B) {
		i := 0
		for b.Loop() {
			d := digests[i&(len(digests)-1)]
			if !h.Add(d, 1) {
				h.Insert(d, 1, name)
			}
			i++
		}
	})
}
