package delta

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// plain is a cluster in which nothing goes wrong.
func plain(nodes int) simConfig {
	return simConfig{
		nodes: nodes, slots: 64, rate: 20, burst: 20, theta: 0.5, interval: 100 * time.Millisecond, duration: 30 * time.Second,
		network: simNetwork{delay: 5 * time.Millisecond},
	}
}

// A client that spreads itself is cut to its rate within 3 s, however much of
// what the nodes send is lost, and one below its rate is never denied. Without
// the others' counts it gets all it asks for.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, loss := range []float64{0, 0.3} {
		for _, apart := range []bool{false, true} {
			for _, nodes := range []int{2, 3, 10} {
				synctest.Test(t, func(t *testing.T) {
					c := plain(nodes)
					c.network.loss, c.apart = loss, apart
					s := newSim(t, c, uint64(nodes))
					r := float64(c.rate)
					asked := map[*simClient]float64{}
					for name, each := range map[string]float64{"2.9r spread evenly": 2.9 / float64(nodes), "trap, 0.95r at each node": 0.95} {
						asked[s.client(name, s.spray(each*r*float64(nodes)))] = each * float64(nodes)
					}
					below := s.conforming("0.9r spread evenly", s.spray(0.9*r))
					s.run(c.duration)
					for c, asked := range asked {
						got := float64(c.units(4*time.Second)) / r / (s.duration - 4*time.Second).Seconds()
						if !apart && got > 1.1 {
							t.Errorf("loss %v, %d nodes: %s is admitted %.2fr", loss, nodes, c.name, got)
						}
						// One that is above its rate at each node is cut anyway.
						if apart && asked <= float64(nodes) && got < 0.95*asked {
							t.Errorf("%d nodes apart: %s is admitted %.2fr of %.2fr: this shows nothing", nodes, c.name, got, asked)
						}
					}
					if below.denied > 0 {
						t.Errorf("loss %v, %d nodes: 0.9r is denied %d times", loss, nodes, below.denied)
					}
				})
			}
		}
	}
}

// All nodes at once between two ticks, and again as soon as one node by itself
// would have forgotten: the bound is that high for a reason, and holds.
func TestBoundIsReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := plain(10)
		c.burst, c.duration = 200, 2*time.Minute
		s := newSim(t, c, 1)
		alone := 1.5*float64(c.burst) + 65 // what the sketch of a single node holds
		s.client("all at once", s.pulse(int(c.burst), time.Duration(alone/float64(c.rate)*1.1e9)))
		s.run(c.duration)
		fullest, err := s.check()
		if err != nil || fullest < 0.95 {
			t.Errorf("fullest %.2f, %v; %v", fullest, err, s)
		}
	})
}

// A client floods one node and visits the others as rarely as a first-seen
// filter of a single node forgets: each forgives it a hit. Filters that remember
// for longer keep that within 2 %.
func TestForgiven(t *testing.T) {
	t.Parallel()
	for _, theta := range []float64{0, 0.2} {
		synctest.Test(t, func(t *testing.T) {
			c := plain(11)
			c.rate, c.burst, c.theta, c.duration = 5, 10, theta, 2*time.Minute
			s := newSim(t, c, 1)
			remembers := ((1+theta)*float64(c.burst) + 2) / float64(c.rate) // of a single node
			i := 0
			s.client("floods one, visits all", func() (time.Duration, int) {
				i++
				if i%20 == 0 {
					return 0, 1 + i/20%10
				}
				return time.Duration(2.1 * remembers / 10 / 20 * 1e9), 0
			})
			s.run(c.duration)
			if fullest, err := s.check(); err != nil || fullest < 0.4 {
				t.Errorf("θ %v: fullest %.2f, %v; %v", theta, fullest, err, s)
			}
		})
	}
}

// A node that dies takes with it what it has not sent: a client that was
// admitted its burst there is unknown to the others, and when the shared bucket
// has drained, while it kept below the rate unchecked, it gets another burst.
// So a death costs a burst.
func TestAmnesia(t *testing.T) {
	t.Parallel()
	for _, farewell := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := plain(2)
			c.rate, c.burst = 10, 100
			s := newSim(t, c, 1)
			x := s.client("x", func() (time.Duration, int) { return time.Hour, 0 })
			s.run(10 * time.Second)
			for range 3 * c.burst {
				s.ask(x, 1)
			}
			if farewell {
				s.run(s.now() + time.Second)
			}
			s.crash(1, false)
			for range 12 * c.rate { // the shared bucket drains meanwhile
				s.run(s.now() + time.Second/time.Duration(c.rate))
				s.ask(x, 0)
			}
			for range 3 * c.burst {
				s.ask(x, 0)
			}
			fullest, err := s.check()
			if err != nil || s.deaths != map[bool]int{false: 1}[farewell] {
				t.Errorf("%v; %v", err, s)
			}
			_, burst := s.bound()
			without := fullest * burst / (burst - float64(s.deaths)*float64(c.burst))
			if !farewell && (fullest < 0.9 || without < 1.1) {
				t.Errorf("fullest %.2f, and %.2f of a bound that forgives no death: this shows nothing", fullest, without)
			}
		})
	}
}

// What is lost is sent again and again: nothing but the sweep does that when
// nobody asks any more.
func TestConvergesWhileLosing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			c := plain(5)
			c.network.loss, c.network.double, c.network.jitter, c.small = 0.3, 0.1, 200*time.Millisecond, true
			c.duration = 5 * time.Second
			s := newSim(t, c, seed)
			s.crowd()
			s.run(c.duration)
			s.healed = time.Hour // so the losses go on
			s.quiet = true
			// A sweep loses a given slot with probability 0.3: of 20
			// mirrors of a dozen clients one does so 12 times in 10^4 runs.
			ticks := 0
			for ; s.differs() != nil && ticks < 12*s.enough(); ticks++ {
				s.run(s.now() + s.interval)
			}
			if err := s.differs(); err != nil {
				t.Errorf("seed %d: after %d ticks: %v", seed, ticks, err)
			}
		})
	}
}

// Two nodes of one name: neither believes the other, nor do others mix them up.
func TestNameTakenTwice(t *testing.T) {
	t.Parallel()
	a, b, c := newTestNode(t, "a", 64, nil), newTestNode(t, "a", 64, func(c *Config) { c.Incarnation = 2 }), newTestNode(t, "c", 64, nil)
	c.Join("a", 1, 0)
	for _, n := range []*testNode{a, b} {
		n.rule.hit(1, 10)
	}
	pa, pb := a.tick(0), b.tick(0)
	if got := reasonOf(a.Receive(pb[0], 0)); got != Self {
		t.Errorf("got %v", got)
	}
	c.mustReceive(t, pa, 0)
	if got := reasonOf(c.Receive(pb[0], 0)); got != StaleIncarnation || c.rule.total() != 10 {
		t.Errorf("got %v, charged %d", got, c.rule.total())
	}
}

// Several rules share the packets, each in sections of its own; a change of one
// leaves the others alone.
func TestRules(t *testing.T) {
	t.Parallel()
	states := make([]*State, 2)
	rules := make([][]*testRule, 2)
	for i := range states {
		c := Config{Cluster: "test", Node: fmt.Sprint(i), Incarnation: 1, PacketSize: 700, MaxBytes: 2000}
		for j := range 6 {
			name := fmt.Sprint("rule-", j)
			if j == 3 {
				name += fmt.Sprint(" of node ", i)
			}
			rules[i] = append(rules[i], newTestRule(t, name, 8<<j))
			c.Rules = append(c.Rules, rules[i][j])
		}
		var err error
		if states[i], err = New(c); err != nil {
			t.Fatal(err)
		}
	}
	states[1].Join("0", 1, 0)
	rng := newRand(1)
	for n := range 400 {
		for range 20 {
			rules[0][rng.IntN(6)].hit(uint64(rng.IntN(200)), 1)
		}
		if n > 200 {
			rng = newRand(uint64(n) % 2) // the same few again, in the end
		}
		now := time.Duration(n) * tick
		for _, p := range states[0].Tick(now) {
			if err := states[1].Receive(p, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		for _, p := range states[0].Tick(time.Minute) {
			_ = states[1].Receive(p, time.Minute)
		}
	}
	for j, r := range rules[0] {
		err := sameTable(r.talkers, &states[1].mirrors["0"].tables[j])
		if j == 3 {
			if rules[1][3].total() != 0 || states[1].Stats().Rejected[UnknownRule] == 0 {
				t.Errorf("another rule was charged %d", rules[1][3].total())
			}
			continue
		}
		if err != nil {
			t.Errorf("rule %d: %v", j, err)
		}
		if got, want := rules[1][j].total(), uint64(1); got < want {
			t.Errorf("rule %d: charged %d", j, got)
		}
	}
}
