package delta

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// TestSimulation: in clusters of 2, 3 and 10 nodes of all kinds, with all that
// may go wrong, nobody who conforms is denied, nobody exceeds the bound that is
// written down, and soon after the last fault everybody knows everything.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := testkit.Size(24, 200)
	if testing.Short() {
		seeds = 12 // ten times as slow under the race detector
	}
	for part := range 4 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds; seed += 4 {
				synctest.Test(t, func(t *testing.T) {
					rng := newRand(uint64(seed) ^ 1<<40)
					simulate(t, randomSim(rng, []int{2, 3, 10}[rng.IntN(3)]), uint64(seed))
				})
			}
		})
	}
}

func randomSim(rng *rand.Rand, nodes int) simConfig {
	one := func() bool { return rng.IntN(2) == 0 }
	c := simConfig{
		nodes: nodes, slots: 64, interval: 100 * time.Millisecond, duration: 20 * time.Second,
		rate: []uint64{5, 20, 50}[rng.IntN(3)], burst: []uint64{10, 20, 100}[rng.IntN(3)],
		theta: []float64{0, 0.1, 0.5, 1}[rng.IntN(4)],
		network: simNetwork{
			loss: 0.3 * rng.Float64(), double: 0.2 * rng.Float64(),
			delay: 5 * time.Millisecond, jitter: time.Duration(1 + rng.Int64N(int64(300*time.Millisecond))),
		},
		skew: one(), late: one(), small: one(), alone: one(),
	}
	if one() {
		c.partition = time.Second + time.Duration(rng.Int64N(int64(5*time.Second)))
	}
	if one() {
		c.restarts = 1 + rng.IntN(2)
	}
	if one() {
		c.flood = 200
	}
	return c
}

func simulate(t *testing.T, c simConfig, seed uint64) {
	t.Helper()
	s := newSim(t, c, seed)
	s.crowd()
	s.run(c.duration)
	ticks, err := s.converge(s.enough())
	if err != nil {
		t.Errorf("seed %d: after %d ticks: %v; %v: %+v", seed, ticks, err, s, c)
	}
	fullest, err := s.check()
	if err != nil {
		t.Errorf("seed %d: %v: %+v", seed, err, c)
	}
	t.Logf("seed %d: fullest %.2f, %d of %d ticks; %v", seed, fullest, ticks, s.enough(), s)
}

// crowd are clients of all kinds.
func (s *sim) crowd() {
	r := float64(s.rate)
	s.conforming("conforming, at its limit", s.scatter(9*r))
	s.conforming("conforming", s.scatter(r))
	s.conforming("conforming, spread evenly", s.spray(0.9*r))
	s.conforming("conforming, dear", s.wander(r, 1)).cost = 3
	s.client("3r spread evenly", s.spray(3*r))
	s.client("0.95r at each node", s.spray(0.95*r*float64(len(s.nodes))))
	s.client("floods one, visits all", s.floodOne(3*r, 0.05))
	s.client("pulses", s.pulse(int(s.burst), time.Duration(float64(s.burst)/r*1e9)))
	s.client("slow pulses", s.pulse(int(s.burst), time.Duration(3*float64(s.burst)/r*1e9)))
	s.client("10r anywhere", s.scatter(10*r))
	s.client("3r, dear, wandering", s.wander(3*r, 0.5)).cost = 2
	if s.flood > 0 {
		s.others(s.flood)
	}
}
