package testkit

import (
	"math/rand/v2"
	"slices"
)

// Mutate returns b with one to four changes anywhere: bytes that are other ones, more or fewer.
func Mutate(r *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + r.IntN(4) {
		if len(b) == 0 {
			return append(b, byte(r.Uint32()))
		}
		switch i := r.IntN(len(b)); r.IntN(8) {
		case 0:
			b = b[:i]
		case 1:
			b = append(b, byte(r.Uint32()))
		case 2:
			b = slices.Insert(b, i, byte(r.Uint32()))
		case 3:
			b[i] = 0
		case 4:
			b[i] = 0xff
		default:
			b[i] ^= 1 << r.IntN(8)
		}
	}
	return b
}
