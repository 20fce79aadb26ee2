package engine

import (
	"math/rand/v2"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// pattern is one phase of traffic.
type pattern struct {
	name   string
	rules  []int
	client func(*rand.Rand) int
	cost   func(*rand.Rand) uint64
	gap    func(*rand.Rand, *world) time.Duration // before the next request
}

// newPattern draws a phase: who sends, what a request costs, and when.
func newPattern(rng *rand.Rand, w *world, clients int) pattern {
	p := pattern{}
	for i := range w.lim.rules {
		if len(w.lim.rules) == 1 || rng.IntN(3) > 0 {
			p.rules = append(p.rules, i)
		}
	}
	if len(p.rules) == 0 {
		p.rules = []int{rng.IntN(len(w.lim.rules))}
	}
	cfg := w.lim.rules[p.rules[0]].config
	unit := cfg.Rate.Per / time.Duration(cfg.Rate.N) // T, rounded
	p.client, p.cost = drawClients(rng, clients), drawCost(rng, cfg.Burst)
	p.name, p.gap = drawGap(rng, unit, cfg, w.lim.plan.Window)
	return p
}

func drawClients(rng *rand.Rand, clients int) func(*rand.Rand) int {
	hot := rng.IntN(clients)
	switch rng.IntN(4) {
	case 0: // one client alone
		return func(*rand.Rand) int { return hot }
	case 1: // one among its neighbours
		return func(r *rand.Rand) int {
			if r.IntN(2) == 0 {
				return hot
			}
			return r.IntN(clients)
		}
	case 2: // Zipf
		z := rand.NewZipf(rng, 1.2, 1, uint64(clients-1))
		return func(*rand.Rand) int { return int(z.Uint64()) }
	}
	return func(r *rand.Rand) int { return r.IntN(clients) }
}

func drawCost(rng *rand.Rand, burst uint64) func(*rand.Rand) uint64 {
	switch rng.IntN(5) {
	case 0:
		return func(r *rand.Rand) uint64 { return 1 + r.Uint64N(5) }
	case 1: // mostly one, at times up to more than the burst
		return func(r *rand.Rand) uint64 {
			if r.IntN(20) > 0 {
				return 1
			}
			return 1 + r.Uint64N(burst+2)
		}
	case 2: // dear ones, and now and then one that may pass as first seen
		return func(r *rand.Rand) uint64 {
			if r.IntN(10) > 0 {
				return 2
			}
			return 1
		}
	}
	return func(*rand.Rand) uint64 { return 1 }
}

// drawGap draws when requests come: unit is T, window that of the filter.
func drawGap(rng *rand.Rand, unit time.Duration, cfg limit.RuleConfig, window time.Duration) (string, func(*rand.Rand, *world) time.Duration) {
	drain := time.Duration((1+*cfg.EscalateAt)*float64(cfg.Burst)+2) * unit
	switch rng.IntN(9) {
	case 0:
		return "flood", func(*rand.Rand, *world) time.Duration { return unit / 1000 }
	case 1:
		return "at the rate", func(*rand.Rand, *world) time.Duration { return unit }
	case 2:
		return "just above the rate", func(*rand.Rand, *world) time.Duration { return unit - unit/20 - 1 }
	case 3:
		return "jitter", func(r *rand.Rand, _ *world) time.Duration { return time.Duration(r.Int64N(int64(2*unit) + 1)) }
	case 4: // pulses that begin about when the level has drained or the window ended
		edge := drain
		if rng.IntN(2) == 0 {
			edge = window
		}
		pulse := 1 + rng.IntN(int(cfg.Burst)*2)
		i := 0
		return "pulses", func(r *rand.Rand, _ *world) time.Duration {
			if i++; i%pulse != 0 {
				return time.Duration(r.Int64N(1000))
			}
			return max(0, edge+time.Duration(r.Int64N(int64(4*unit)+1))-2*unit)
		}
	case 5: // steady at the rate with an excuse to be forgotten
		i := 0
		return "steady and pause", func(r *rand.Rand, _ *world) time.Duration {
			if i++; i%50 != 0 {
				return unit
			}
			return time.Duration(float64(drain) * (0.5 + r.Float64()))
		}
	case 6:
		return "clock jumps ahead", func(r *rand.Rand, _ *world) time.Duration {
			if r.IntN(200) > 0 {
				return unit / 10
			}
			return time.Duration(r.Int64N(int64(3*window + time.Hour)))
		}
	case 7:
		var back time.Duration
		return "clock steps back", func(r *rand.Rand, _ *world) time.Duration {
			switch {
			case back == 0 && r.IntN(20) == 0: // by 1 ns to 73 minutes
				back = 1 << r.IntN(43)
				return -back
			case back > 0 && r.IntN(3) == 0:
				caughtUp := back
				back = 0
				return caughtUp + unit/7
			}
			return unit / 7
		}
	}
	return "microseconds", func(r *rand.Rand, _ *world) time.Duration { return time.Duration(r.Int64N(5000)) }
}
