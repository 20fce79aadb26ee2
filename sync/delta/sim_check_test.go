package delta

import (
	"errors"
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/limit"
)

// bound is what docs/decisions/0005-nodes.md allows a client, as rate·t +
// burst, with the L, f and lives that there were.
func (s *sim) bound() (rate, burst float64) {
	const forgiven = 0.02 // ε
	r, b, j := float64(s.rate), float64(s.burst), limit.DefaultStoreTimeout.Seconds()
	n, f, l := float64(len(s.lives)), float64(max(s.hid, s.lost)), s.lag.Seconds()
	epoch := s.lives[0].rule.TopTalkers().Epoch.Seconds()
	if s.skew {
		epoch /= fastest
	}
	rate = r*(1+forgiven) + (n-1)*f/epoch
	burst = 2*(n-1)*f + (1+n*s.theta)*b + n*r*l + n + r*j
	burst += float64(s.deaths) * (b + r*(j+l))
	return rate, burst
}

// check returns what was broken, and how near the fullest client came to the
// bound.
func (s *sim) check() (fullest float64, err error) {
	rate, burst := s.bound()
	for _, c := range s.clients {
		if c.conforms && c.denied > 0 {
			return 0, fmt.Errorf("P1: %s conforms and was denied %d times", c.name, c.denied)
		}
		level, at := 0.0, time.Duration(0)
		for _, a := range c.admitted {
			level = max(0, level-rate*(a.at-at).Seconds()) + float64(a.units)
			at = a.at
			fullest = max(fullest, level/burst)
			if level > burst {
				return 0, fmt.Errorf("P2: %s: level %.1f at %v, bound %.1f and %.2f/s: %s", c.name, level, at, burst, rate, s)
			}
		}
	}
	return fullest, s.overcharged()
}

// overcharged returns where a unit was charged twice, or was not charged though
// nothing was lost.
func (s *sim) overcharged() error {
	for _, a := range s.lives {
		for _, b := range s.lives {
			missed := map[uint64]uint64{}
			for k, n := range a.lost {
				if k.from == b {
					missed[k.pos] += n
				}
			}
			for pos, counted := range b.counted {
				charged := a.charged[b][pos]
				if charged > counted {
					return fmt.Errorf("%s charged %d units of a client of whom %s counted %d", a.name, charged, b.name, counted)
				}
				// One who came late does not know what was given up before.
				// A hit that named nobody yet counts as missed, and may still be sent.
				together := s.quiet && a.up && b.up && a != b && s.restarts == 0 && !s.late
				if together && charged+missed[pos] < counted {
					return fmt.Errorf("%s charged %d units and missed %d of a client of whom %s counted %d", a.name, charged, missed[pos], b.name, counted)
				}
			}
		}
	}
	return nil
}

var errApart = errors.New("knows nothing of it")

// converge lets the cluster be quiet until all mirrors are the tables, and
// returns how many ticks after the last fault that was.
func (s *sim) converge(most int) (ticks int, err error) {
	s.quiet = true
	s.run(max(s.healed, s.now()))
	for ; ; ticks++ {
		if err = s.differs(); err == nil || ticks >= most {
			s.giveUp()
			return ticks, err
		}
		s.run(s.now() + s.interval)
	}
}

// giveUp takes for lost what the nodes that are up have not sent each other by now: its
// slots were given up.
func (s *sim) giveUp() {
	s.pairs(func(a, b *simNode) {
		for _, h := range a.pending[b] {
			a.lose(b, h)
		}
		delete(a.pending, b)
	})
}

// differs returns where a mirror is not the table.
func (s *sim) differs() (err error) {
	s.pairs(func(a, b *simNode) {
		if err != nil {
			return
		}
		m := a.state.mirrors[b.name]
		if m == nil || m.incarnation != b.incarnation {
			err = errApart
		} else {
			err = sameTable(b.rule.TopTalkers().Table, &m.tables[0])
		}
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", a.name, b.name, err)
		}
	})
	return err
}

// enough is in how many ticks without faults all mirrors are the tables: what
// is on its way arrives, membership has caught up, and the sweep, which has a quarter
// of the bytes, comes around.
func (s *sim) enough() int {
	const entry = 8 + 1 + 5 + 2 + 4 + 2 // with the compact name of an IPv4 address
	st := s.lives[0].state
	quarter := (st.config.MaxBytes - (st.config.MaxBytes/st.config.PacketSize+1)*(slack+40) - maxSection) / 4
	sweep := (s.lives[0].rule.TopTalkers().Table.Slots()*entry + quarter - 1) / quarter
	slowest := 2 * s.interval // a tick of the slowest clock, and its phase
	return sweep + int((s.network.delay+s.network.jitter+slowest)/s.interval) + 1
}

func (s *sim) String() string {
	return fmt.Sprintf("lag %v f %d lost %d, %d nodes, %d lives, %d deaths", s.lag.Round(time.Millisecond), s.hid, s.lost, len(s.nodes), len(s.lives), s.deaths)
}

// units is what was admitted of a client from a time on.
func (c *simClient) units(from time.Duration) (n uint64) {
	for _, a := range c.admitted {
		if a.at >= from {
			n += a.units
		}
	}
	return n
}
