package workload

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// All returns the models of traffic in the order of reports.
func All() []*Workload {
	return []*Workload{
		zipfWorkload(0.8), zipfWorkload(1.1), distinct(), hotKey(),
		botnet2022(), botnet2023(), swarm2022(), pulseWave(),
		rotateV6(), flashCrowd(), slowDrip(), lowAndSlow(),
	}
}

// each is a mean rate that does not depend on the parameters.
func each(perSecond float64) func(Params) float64 {
	return func(Params) float64 { return perSecond }
}

// random lets n clients send independently, all equally often.
func random(rng *rand.Rand, _ Params, n int, perSecond float64) arrivals {
	return poisson(rng, perSecond, uniform(rng, n))
}

// zipfWorkload is steady traffic of 2^20 clients whose popularity follows a
// Zipf law with the given exponent, above 0. Exponents of web requests differ
// from trace to trace (Breslau et al., INFOCOM 1999); 1 and a little more is
// what papers on sketches use. Its name is "zipf-" and the exponent.
func zipfWorkload(exponent float64) *Workload {
	return &Workload{
		Name:    "zipf-" + strconv.FormatFloat(exponent, 'g', -1, 64),
		Clients: 1 << 20, perClient: each(0.15), alone: true,
		open: func(rng *rand.Rand, _ Params, n int, perSecond float64) arrivals {
			z, err := NewZipf(rng, exponent, n)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			return poisson(rng, perSecond, func() uint32 { return uint32(z.Next() - 1) })
		},
	}
}

// distinct is a flood of 10^8 sources that are seen once: spoofed or rented
// addresses, or a scan over a whole prefix.
func distinct() *Workload {
	return &Workload{
		Name:      "distinct",
		Clients:   1e8,
		perClient: func(p Params) float64 { return 1 / p.Duration.Seconds() },
		open:      func(_ *rand.Rand, _ Params, n int, perSecond float64) arrivals { return once(n, perSecond) },
	}
}

// hotKey is one client that sends 100,000 requests/s.
func hotKey() *Workload {
	return &Workload{
		Name:    "hot-key",
		Clients: 1, perClient: each(100_000), open: random,
	}
}

// botnet2022 is a small, fierce botnet: 5,067 devices at about 5,200 requests/s
// each, 26 million in all (Cloudflare, June 2022).
func botnet2022() *Workload {
	return &Workload{
		Name:    "botnet-2022",
		Clients: 5067, perClient: each(5200), open: random,
	}
}

// botnet2023 is 30,000 addresses that send 71 million requests/s, about 2,400
// each (Cloudflare, February 2023).
func botnet2023() *Workload {
	return &Workload{
		Name:    "botnet-2023",
		Clients: 30_000, perClient: each(2400), open: random,
	}
}

// swarm2022 is a large, weak botnet: 730,000 devices that send a million
// requests/s, about 1.4 each (Cloudflare, June 2022). Each conforms to any
// sensible limit, so that every denial is a mistake.
func swarm2022() *Workload {
	return &Workload{
		Name:    "swarm-2022",
		Clients: 730_000, perClient: each(1.4), open: random,
	}
}

// pulseWave is 500 clients that send 2·B requests within 100 ms around the
// edges of windows of B/r, and nothing in between: the worst case for counters
// that are reset. Attacks in pulses were described by Imperva in 2017; that
// they meet the edges is this project's choice.
func pulseWave() *Workload {
	const length = 100 * time.Millisecond
	return &Workload{
		Name:      "pulse-wave",
		Clients:   500,
		perClient: func(p Params) float64 { return 2 * p.Rule.Rate.PerSecond() },
		open: func(rng *rand.Rand, p Params, n int, _ float64) arrivals {
			inPulse := 2 * float64(p.Rule.Burst) / length.Seconds()
			return pulsed(poisson(rng, inPulse*float64(n), uniform(rng, n)), length, p.Rule.Window())
		},
	}
}

// rotateV6 is 100 clients that send ten times their limit, each request from
// another address of their /64, which one subscriber commonly has for itself.
func rotateV6() *Workload {
	return &Workload{
		Name:      "rotate-v6",
		Clients:   100,
		perClient: func(p Params) float64 { return 10 * p.Rule.Rate.PerSecond() },
		open:      random, rotates: true,
	}
}

// flashCrowd is a crowd that gathers: within the first third of the time the
// number of clients, and with it the rate, rises twentyfold, and falls back to
// the end. Its shape is this project's choice; the term is that of Jung et al.,
// WWW 2002.
func flashCrowd() *Workload {
	const growth = 20.0
	mean := (1 + growth) / 2 / growth // of the crowd over time, to its peak
	return &Workload{
		Name:    "flash-crowd",
		Clients: 100_000, perClient: each(3 * mean), alone: true,
		open: func(rng *rand.Rand, p Params, n int, perSecond float64) arrivals {
			present := func(at time.Duration) float64 { // as a share of n
				x := 3 * at.Seconds() / p.Duration.Seconds()
				if x > 1 {
					x = (3 - x) / 2
				}
				return (1 + (growth-1)*max(0, x)) / growth
			}
			return varying(rng,
				func(at time.Duration) float64 { return present(at) * perSecond / mean },
				func(at time.Duration) uint32 { return rng.Uint32N(uint32(math.Ceil(present(at) * float64(n)))) })
		},
	}
}

// slowDrip is 1,000 clients that send at exactly 0.95·r without pause. All conform,
// so that every denial is a mistake.
func slowDrip() *Workload {
	const share = 0.95
	return &Workload{
		Name:      "slow-drip",
		Clients:   1000,
		perClient: func(p Params) float64 { return share * p.Rule.Rate.PerSecond() },
		alone:     true,
		open: func(_ *rand.Rand, p Params, n int, _ float64) arrivals {
			// Rounded up: never faster than the share.
			return inTurn(n, time.Duration(math.Ceil(float64(time.Second)/(share*p.Rule.Rate.PerSecond()))))
		},
	}
}

// lowAndSlow is 1.2 million addresses with one request per 9 s each, about
// 136,000 requests/s in all (DataDome, April 2026: 2.45 billion requests in
// five hours). No limit per address sheds it, and none should: it conforms.
func lowAndSlow() *Workload {
	return &Workload{
		Name:    "low-and-slow",
		Clients: 1_200_000, perClient: each(1.0 / 9), open: random,
	}
}
