package workload

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// All returns the models of traffic in the order of reports. Those that are alone
// conform already, or are a mixture: a denial of theirs is a mistake, or earned.
func All() []*Workload {
	return []*Workload{
		zipfWorkload(0.8), zipfWorkload(1.1),
		// A flood of 10^8 sources that are seen once: spoofed or rented addresses,
		// or a scan over a whole prefix.
		{
			Name: "distinct", Clients: 1e8,
			perClient: func(p Params) float64 { return 1 / p.Duration.Seconds() },
			open:      func(_ *rand.Rand, _ Params, n int, perSecond float64) arrivals { return once(n, perSecond) },
		},
		// One client.
		{Name: "hot-key", Clients: 1, perClient: each(100_000), open: random},
		// A small, fierce botnet: 5,067 devices at about 5,200 requests/s each, 26
		// million in all (Cloudflare, June 2022).
		{Name: "botnet-2022", Clients: 5067, perClient: each(5200), open: random},
		// 30,000 addresses that send 71 million requests/s, about 2,400 each
		// (Cloudflare, February 2023).
		{Name: "botnet-2023", Clients: 30_000, perClient: each(2400), open: random},
		// A large, weak botnet: 730,000 devices that send a million requests/s,
		// about 1.4 each (Cloudflare, June 2022). Each conforms to any sensible
		// limit, so that every denial is a mistake.
		{Name: "swarm-2022", Clients: 730_000, perClient: each(1.4), open: random},
		// 500 clients that send 2·B requests within 100 ms around the edges of
		// windows of B/r, and nothing in between: the worst case for counters that
		// are reset. Attacks in pulses were described by Imperva in 2017; that they
		// meet the edges is this project's choice.
		{Name: "pulse-wave", Clients: 500, perClient: limits(2), open: pulseWave},
		// 100 clients that send ten times their limit, each request from another
		// address of their /64, which one subscriber commonly has for itself.
		{Name: "rotate-v6", Clients: 100, perClient: limits(10), open: random, rotates: true},
		// A crowd that gathers: within the first third of the time the number of
		// clients, and with it the rate, rises twentyfold, and falls back to the
		// end. Its shape is this project's choice; the term is that of Jung et al.,
		// WWW 2002.
		{Name: "flash-crowd", Clients: 100_000, perClient: each(3 * crowdMean), alone: true, open: flashCrowd},
		// 1,000 clients that send just below the limit without pause. All conform,
		// so that every denial is a mistake.
		{Name: "slow-drip", Clients: 1000, perClient: limits(dripLoad), alone: true, open: slowDrip},
		// 1.2 million addresses with one request per 9 s each, about 136,000
		// requests/s in all (DataDome, April 2026: 2.45 billion requests in five
		// hours). No limit per address sheds it, and none should: it conforms.
		{Name: "low-and-slow", Clients: 1_200_000, perClient: each(1.0 / 9), open: random},
	}
}

// each is a mean rate that does not depend on the parameters.
func each(perSecond float64) func(Params) float64 {
	return func(Params) float64 { return perSecond }
}

// limits is a mean rate in multiples of the rule's.
func limits(n float64) func(Params) float64 {
	return func(p Params) float64 { return n * p.Rule.Rate.PerSecond() }
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

// pulseWave compresses the requests of n clients into pulses.
func pulseWave(rng *rand.Rand, p Params, n int, _ float64) arrivals {
	const length = 100 * time.Millisecond
	inPulse := 2 * float64(p.Rule.Burst) / length.Seconds()
	return pulsed(poisson(rng, inPulse*float64(n), uniform(rng, n)), length, p.Rule.Window())
}

const (
	crowdGrowth = 20.0
	crowdMean   = (1 + crowdGrowth) / 2 / crowdGrowth // of the crowd over time, to its peak
	dripLoad    = 0.95                                // of the limit
)

// flashCrowd lets the crowd rise to n clients and fall again.
func flashCrowd(rng *rand.Rand, p Params, n int, perSecond float64) arrivals {
	present := func(at time.Duration) float64 { // as a share of n
		x := 3 * at.Seconds() / p.Duration.Seconds()
		if x > 1 {
			x = (3 - x) / 2
		}
		return (1 + (crowdGrowth-1)*max(0, x)) / crowdGrowth
	}
	return varying(rng,
		func(at time.Duration) float64 { return present(at) * perSecond / crowdMean },
		func(at time.Duration) uint32 { return rng.Uint32N(uint32(math.Ceil(present(at) * float64(n)))) })
}

// slowDrip lets n clients send at even distances, rounded up: never faster than
// their share.
func slowDrip(_ *rand.Rand, p Params, n int, _ float64) arrivals {
	return inTurn(n, time.Duration(math.Ceil(float64(time.Second)/(dripLoad*p.Rule.Rate.PerSecond()))))
}
