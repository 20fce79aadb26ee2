package delta

import (
	"math/rand/v2"
	"time"
)

func (s *sim) exponential(perSecond float64) time.Duration {
	return time.Duration(s.rng.ExpFloat64() / perSecond * 1e9)
}

// spray sends to all nodes, one after another, at an even rate.
func (s *sim) spray(perSecond float64) behaviour {
	i := s.rng.IntN(len(s.nodes))
	return func() (time.Duration, int) {
		i++
		return time.Duration(1e9 / perSecond), i % len(s.nodes)
	}
}

// scatter asks any node at random times.
func (s *sim) scatter(perSecond float64) behaviour {
	return func() (time.Duration, int) { return s.exponential(perSecond), s.rng.IntN(len(s.nodes)) }
}

// floodOne visits all nodes but the first now and then, and floods that.
func (s *sim) floodOne(perSecond, rarely float64) behaviour {
	return func() (time.Duration, int) {
		if s.rng.Float64() < rarely {
			return 0, 1 + s.rng.IntN(len(s.nodes)-1)
		}
		return s.exponential(perSecond), 0
	}
}

// pulse asks every node so many times at once, and then is silent.
func (s *sim) pulse(each int, silence time.Duration) behaviour {
	i := -1
	return func() (time.Duration, int) {
		if i++; i > 0 && i%(each*len(s.nodes)) == 0 {
			return silence, 0
		}
		return 0, i / each % len(s.nodes)
	}
}

// wander asks one node for a while and then another.
func (s *sim) wander(perSecond, stay float64) behaviour {
	node := 0
	return func() (time.Duration, int) {
		if s.rng.Float64() < 1/(perSecond*stay) {
			node = s.rng.IntN(len(s.nodes))
		}
		return s.exponential(perSecond), node
	}
}

// others are clients that nobody tracks, a few of them heavy, so many requests
// a second.
func (s *sim) others(perSecond int) {
	zipf := rand.NewZipf(s.rng, 1.2, 10, 5000)
	var step func()
	step = func() {
		if s.quiet {
			return
		}
		if n := s.nodes[s.rng.IntN(len(s.nodes))]; n != nil && n.up {
			n.rule.Allow(n.rule.AddrKey(addrOf(1<<20 + int(zipf.Uint64()))))
		}
		s.after(s.exponential(float64(perSecond)), step)
	}
	step()
}
