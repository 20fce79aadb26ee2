package sketch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// layout is a way to place the cells of a key, simulated without concurrency.
type layout struct {
	name  string
	cells func(pos uint64, cells uint64) [4]uint64 // the first d of them are used
	d     int
}

func fastrange(x uint32, n uint64) uint64 { return uint64(x) * n >> 32 }

func layouts() []layout {
	return []layout{
		{"rows of their own, d=4", func(p, n uint64) (c [4]uint64) {
			q := p * 0x9e3779b97f4a7c15
			q ^= q >> 29
			w := n / 4
			for i, h := range []uint32{uint32(p), uint32(p >> 32), uint32(q), uint32(q >> 32)} {
				c[i] = uint64(i)*w + fastrange(h, w)
			}
			return c
		}, 4},
		{"128-byte blocks of 4x4, d=4", func(p, n uint64) (c [4]uint64) {
			b := fastrange(uint32(p>>32), n/16) * 16
			for i := range uint64(4) {
				c[i] = b + 4*i + p>>(2*i)&3
			}
			return c
		}, 4},
		{"64-byte blocks, 3 of 8 (used)", func(p, n uint64) (c [4]uint64) {
			b := fastrange(uint32(p>>32), n/8) * 8
			s := uint64(subsets[p&63])
			return [4]uint64{b + s&7, b + s>>3&7, b + s>>6&7}
		}, 3},
	}
}

// BenchmarkLayouts counts how many requests of conforming clients each layout
// makes suspects of, in the same 2 MiB: rate 10/s, burst 20, suspected from 10
// on, 10 s of 200,000 requests per second. It is the evidence of
// docs/decisions/0001.
func BenchmarkLayouts(b *testing.B) {
	const (
		cells, rps, seconds = 1 << 18, 200_000, 10
		unit                = 100_000 // µs per unit at 10/s
	)
	clients := make([]uint64, 1<<20)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range clients {
		clients[i] = rng.Uint64()
	}
	traffics := map[string]func() (int, bool){ // client, and whether it is one of the well-behaved
		"zipf 1.1": nil,
		"1000 heavy among a million": func() (int, bool) {
			if rng.IntN(2) == 0 {
				return rng.IntN(1000), false // 100/s each
			}
			return 1000 + rng.IntN(len(clients)-1000), true
		},
	}
	for _, traffic := range []string{"zipf 1.1", "1000 heavy among a million"} {
		for _, l := range layouts() {
			b.Run(fmt.Sprintf("%s/%s", traffic, l.name), func(b *testing.B) {
				draw := traffics[traffic]
				if draw == nil {
					z := rand.NewZipf(rng, 1.1, 1, uint64(len(clients)-1))
					draw = func() (int, bool) { k := int(z.Uint64()); return k, k > 2000 } // below 10/s
				}
				for b.Loop() {
					suspects, conforming := l.run(draw, clients, cells, rps*seconds, 1e6/rps, unit)
					b.ReportMetric(100*suspects/conforming, "%suspects")
				}
			})
		}
	}
}

func (l layout) run(draw func() (int, bool), clients []uint64, cells, requests, gap, unit uint64) (suspects, conforming float64) {
	state := make([]uint64, cells)
	limit := 31*unit + 65*unit
	for i := range requests {
		now := i*gap + 1
		k, good := draw()
		idx := l.cells(clients[k], cells)
		level := uint64(math.MaxUint64)
		for _, c := range idx[:l.d] {
			if state[c] < now+limit {
				state[c] = max(state[c], now) + unit
			}
			level = min(level, state[c]-now)
		}
		if good {
			conforming++
			if level >= 10*unit {
				suspects++
			}
		}
	}
	return suspects, conforming
}
