package workload

import (
	"math/rand/v2"
	"time"
)

// arrivals yields requests without end, in order of time, by client. All of
// them take constant memory, so that a stream may have any number of clients.
type arrivals func() (client uint32, at time.Duration)

// poisson sends perSecond requests, each of a client that pick draws. Drawn
// uniformly, that is an independent Poisson process for each client.
func poisson(rng *rand.Rand, perSecond float64, pick func() uint32) arrivals {
	return varying(rng, func(time.Duration) float64 { return perSecond }, func(time.Duration) uint32 { return pick() })
}

// varying is poisson with a rate and a choice that change slowly over time.
func varying(rng *rand.Rand, perSecond func(time.Duration) float64, pick func(time.Duration) uint32) arrivals {
	seconds := 0.0
	return func() (uint32, time.Duration) {
		at := time.Duration(seconds * float64(time.Second))
		seconds += rng.ExpFloat64() / perSecond(at)
		at = time.Duration(seconds * float64(time.Second))
		return pick(at), at
	}
}

// uniform draws one of n clients.
func uniform(rng *rand.Rand, n int) func() uint32 {
	return func() uint32 { return rng.Uint32N(uint32(n)) }
}

// inTurn lets each of n clients send exactly once in each period.
func inTurn(n int, period time.Duration) arrivals {
	var turn time.Duration
	i := -1
	return func() (uint32, time.Duration) {
		if i++; i == n {
			i = 0
			turn += period
		}
		return uint32(i), turn + period*time.Duration(i)/time.Duration(n)
	}
}

// once sends perSecond requests, each of a client never seen before until all
// n have been.
func once(n int, perSecond float64) arrivals {
	i := 0
	return func() (uint32, time.Duration) {
		client, at := uint32(i%n), time.Duration(float64(i)/perSecond*float64(time.Second))
		i++
		return client, at
	}
}

// pulsed compresses a into pulses: it runs while a pulse is on, the clock
// stands still for it between two. Pulses have the given length and are
// centred on the whole multiples of every but the first.
func pulsed(a arrivals, length, every time.Duration) arrivals {
	return func() (uint32, time.Duration) {
		client, active := a()
		pulse, within := active/length, active%length
		return client, (pulse+1)*every - length/2 + within
	}
}

// merge interleaves two streams by time. Clients of b are numbered from n.
func merge(a, b arrivals, n int) arrivals {
	clientA, atA := a()
	clientB, atB := b()
	return func() (client uint32, at time.Duration) {
		if atA <= atB {
			client, at = clientA, atA
			clientA, atA = a()
			return client, at
		}
		client, at = clientB+uint32(n), atB
		clientB, atB = b()
		return client, at
	}
}
