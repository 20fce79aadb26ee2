package delta

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fastlimit/fastlimit"
)

const forgiven = 0.02 // ε of the bound

// bound is what docs/decisions/0005-nodes.md allows a client: rate·t + burst.
func (s *sim) bound() (rate, burst float64) {
	c := s.simConfig.rule
	r, b, theta := c.Rate.PerSecond(), float64(c.Burst), *s.lives[0].rule.Config().EscalateAt
	n, f := float64(len(s.lives)), float64(s.hid)
	epoch := s.lives[0].rule.Epoch().Seconds() / 1.05 // of the fastest clock
	late := r * s.lag.Seconds()
	j := r * fastlimit.DefaultStoreTimeout.Seconds()
	rate = r*(1+forgiven) + (n-1)*f/epoch
	burst = 2*(n-1)*f + (1+n*theta)*b + n*late + n + j
	return rate, burst
}

// check tells what was broken.
func (s *sim) check() (fullest float64, err error) {
	rate, burst := s.bound()
	for _, c := range s.clients {
		if c.conforms && c.denied > 0 {
			return 0, fmt.Errorf("P1: %s conforms and was denied %d times", c.name, c.denied)
		}
		level, at := 0.0, time.Duration(0)
		for _, t := range c.admitted {
			level = max(0, level-rate*(t-at).Seconds()) + 1
			at = t
			fullest = max(fullest, level/burst)
			if level > burst {
				return 0, fmt.Errorf("P2: %s: level %.1f at %v, bound %.1f and %.2f/s (lag %v, f %d, %d lives, %d deaths)",
					c.name, level, t, burst, rate, s.lag, s.hid, len(s.lives), s.deaths)
			}
		}
	}
	return fullest, nil
}

// converge lets the cluster be quiet until all mirrors are the tables, and
// tells how many ticks that took.
func (s *sim) converge(most int) (ticks int, err error) {
	s.quiet = true
	s.run(max(s.healed, s.now()) + time.Second)
	for ; ; ticks++ {
		if err = s.differs(); err == nil || ticks > most {
			return ticks, err
		}
		s.run(s.now() + s.interval)
	}
}

// differs tells where a mirror is not the table.
func (s *sim) differs() (err error) {
	s.pairs(func(a, b *simNode) {
		if err != nil {
			return
		}
		m := a.state.mirrors[b.name]
		if m == nil || m.incarnation != b.incarnation {
			err = fmt.Errorf("%s knows nothing of %s", a.name, b.name)
			return
		}
		err = sameTable(b.rule.Heavy(), &m.tables[0])
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", a.name, b.name, err)
		}
	})
	return err
}

func (s *sim) report(seed uint64, fullest float64) string {
	return fmt.Sprintf("seed %d: fullest %.2f lag %v f %d lost %d lives %d deaths %d", seed, fullest, s.lag, s.hid, s.lost, len(s.lives), s.deaths)
}

func TestSimulation(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				simulate(t, seed)
			})
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	rng := newRand(seed ^ 1<<40)
	n := []int{2, 3, 10}[rng.IntN(3)]
	theta := 0.5
	c := simConfig{
		nodes: n, slots: 64, interval: 100 * time.Millisecond, duration: 20 * time.Second,
		rule:    fastlimit.RuleConfig{Name: "per-ip", Rate: fastlimit.Rate{N: 20, Per: time.Second}, Burst: 20, EscalateAt: &theta},
		network: simNetwork{loss: 0.3 * rng.Float64(), double: 0.1, delay: 5 * time.Millisecond, jitter: time.Duration(rng.Int64N(int64(300 * time.Millisecond)))},
		skew:    rng.IntN(2) == 0,
		late:    rng.IntN(2) == 0,
		small:   rng.IntN(2) == 0,
	}
	if rng.IntN(2) == 0 {
		c.partition = 4 * time.Second
	}
	if rng.IntN(2) == 0 {
		c.restarts = 1 + rng.IntN(2)
	}
	if rng.IntN(2) == 0 {
		c.flood = 200
	}
	s := newSim(t, c, seed)
	r := c.rule.Rate.PerSecond()
	for i := range 3 {
		s.client(fmt.Sprintf("conforming %d", i), s.scatter([]float64{r * 3, r, r / 2}[i])).conforms = true
	}
	s.client("spray 3r", s.spray(3*r))
	s.client("trap", s.spray(0.95*r*float64(n)))
	s.client("flood one", s.floodOne(3*r, 0.05))
	s.client("pulses", s.pulse(int(c.rule.Burst), time.Duration(float64(c.rule.Burst)*1.5/r*1e9)))
	s.client("scatter 10r", s.scatter(10*r))
	if c.flood > 0 {
		s.others(c.flood)
	}
	s.run(c.duration)
	ticks, err := s.converge(200)
	if err != nil {
		t.Errorf("not converged in %d ticks: %v", ticks, err)
	}
	fullest, err := s.check()
	if err != nil {
		t.Errorf("%v: %+v", err, c)
	}
	t.Logf("%s; %d ticks; n %d", s.report(seed, fullest), ticks, n)
}
