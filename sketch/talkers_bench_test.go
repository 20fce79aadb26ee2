package sketch

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTalkers: the parts of what a hit costs in a table of 8192 slots, for
// clients that have one and for a crowd of 2^16 clients that do not.
func BenchmarkTalkers(b *testing.B) {
	const slots = 8192
	h, err := NewTopTalkers(slots)
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
	for name, clients := range map[string]int{"Add/64 clients": 64, "Add/4096 clients": slots / 2} {
		b.Run(name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				h.Add(held[i&(clients-1)], 1)
				i++
			}
		})
	}
	b.Run("crowd", func(b *testing.B) {
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
