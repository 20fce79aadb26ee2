package delta

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/sketch"
)

// simClient is a client with what was admitted for it.
type simClient struct {
	name     string
	addr     netip.Addr
	pos      uint64
	conforms bool
	next     func(c *simClient) (wait time.Duration, node int)

	admitted []time.Duration
	denied   int
	level    levelOracle // of what it asked for, if it conforms
}

// levelOracle is a leaky bucket in exact integers: ns times units per period.
type levelOracle struct {
	rate  fastlimit.Rate
	at    time.Duration
	level uint64
}

func (o *levelOracle) leak(now time.Duration) {
	o.level -= min(o.level, uint64(now-o.at)*o.rate.N)
	o.at = now
}

func (o *levelOracle) units(n uint64) uint64 { return n * uint64(o.rate.Per) }

// wait is how long until another unit fits into burst.
func (o *levelOracle) wait(now time.Duration, burst uint64) time.Duration {
	o.leak(now)
	over := o.level + o.units(1) - min(o.units(burst), o.level+o.units(1))
	return time.Duration((over + o.rate.N - 1) / o.rate.N)
}

func (s *sim) client(name string, next func(c *simClient) (time.Duration, int)) *simClient {
	a := addrOf(len(s.clients) + 1)
	c := &simClient{name: name, addr: a, pos: s.position(a), next: next, level: levelOracle{rate: s.simConfig.rule.Rate}}
	s.clients = append(s.clients, c)
	s.tracked[c.pos] = c
	var step func()
	step = func() {
		if s.quiet {
			return
		}
		wait, node := c.next(c)
		if c.conforms {
			wait = max(wait, c.level.wait(s.now()+wait, s.simConfig.rule.Burst)+wait)
		}
		s.after(wait, func() {
			if !s.quiet {
				s.ask(c, node)
			}
			step()
		})
	}
	s.after(time.Duration(s.rng.Int64N(int64(time.Second))), step)
	return c
}

// ask is one request at a node.
func (s *sim) ask(c *simClient, node int) {
	n := s.nodes[node]
	if n == nil || !n.up {
		return
	}
	now := s.now()
	if c.conforms {
		if c.level.wait(now, s.simConfig.rule.Burst) > 0 {
			return
		}
		c.level.level += c.level.units(1)
	}
	d := n.rule.Take(context.Background(), n.rule.AddrKey(c.addr), 1)
	if d.Allowed {
		c.admitted = append(c.admitted, now)
	} else {
		c.denied++
	}
	if d.Stage != fastlimit.StageFilter && d.Stage != fastlimit.StageTable {
		n.counted(c, now)
	}
}

// counted notes a hit for all who are to hear of it.
func (n *simNode) counted(c *simClient, now time.Duration) {
	h, ok := n.find(c.pos)
	h.at, h.epoch, h.pos = now, n.epoch, c.pos
	for _, o := range n.sim.nodes {
		switch {
		case o == nil, o == n, !o.up:
		case ok:
			o.pending[n] = append(o.pending[n], h)
		default:
			o.lose(n, h)
		}
	}
}

// find looks a client up in the node's table.
func (n *simNode) find(pos uint64) (hit, bool) {
	var s sketch.Slot
	for i := range n.rule.Heavy().Slots() {
		if n.rule.Heavy().Read(i, &s); s.Live && s.Pos == pos {
			return hit{slot: i, gen: s.Gen, count: s.Count, pos: pos}, true
		}
	}
	return hit{}, false
}

// catchUp notes what a new node has yet to hear of, and the others of it.
func (s *sim) catchUp(n, o *simNode) {
	for _, c := range s.clients {
		if h, ok := o.find(c.pos); ok {
			h.at, h.epoch = s.now(), o.epoch
			n.pending[o] = append(n.pending[o], h)
		}
	}
}

// lose notes that n will never hear of a hit.
func (n *simNode) lose(from *simNode, h hit) {
	k := lostKey{from, h.pos, h.epoch}
	n.gone[k]++
	n.sim.lost = max(n.sim.lost, n.gone[k])
}

// settle strikes off what n has heard of from that node by now.
func (n *simNode) settle(from *simNode) {
	hits := n.pending[from]
	if len(hits) == 0 {
		return
	}
	m := n.state.mirrors[from.name]
	if m == nil || m.incarnation != from.incarnation {
		return
	}
	rest := hits[:0]
	for _, h := range hits {
		slot := m.tables[0].slot(uint64(h.slot))
		switch {
		case slot.gen == h.gen && slot.count >= h.count:
			n.sim.lag = max(n.sim.lag, n.sim.now()-h.at)
		case slot.gen > h.gen:
			n.lose(from, h)
		default:
			rest = append(rest, h)
		}
	}
	n.pending[from] = rest
}

// Behaviours. Each returns how long to wait and whom to ask then.

func exponential(rng *rand.Rand, perSecond float64) time.Duration {
	return time.Duration(rng.ExpFloat64() / perSecond * 1e9)
}

// spray asks all nodes in turn at an even rate.
func (s *sim) spray(perSecond float64) func(*simClient) (time.Duration, int) {
	i := s.rng.IntN(len(s.nodes))
	return func(*simClient) (time.Duration, int) {
		i++
		return time.Duration(1e9 / perSecond), i % len(s.nodes)
	}
}

// scatter asks any node at random times.
func (s *sim) scatter(perSecond float64) func(*simClient) (time.Duration, int) {
	return func(*simClient) (time.Duration, int) { return exponential(s.rng, perSecond), s.rng.IntN(len(s.nodes)) }
}

// floodOne visits all nodes but one rarely, and floods that.
func (s *sim) floodOne(perSecond, rarely float64) func(*simClient) (time.Duration, int) {
	return func(*simClient) (time.Duration, int) {
		if s.rng.Float64() < rarely {
			return 0, 1 % len(s.nodes) * (1 + s.rng.IntN(max(1, len(s.nodes)-1))) % len(s.nodes)
		}
		return exponential(s.rng, perSecond), 0
	}
}

// pulse asks every node so many times at once, and then is silent.
func (s *sim) pulse(burst int, silence time.Duration) func(*simClient) (time.Duration, int) {
	i := 0
	return func(*simClient) (time.Duration, int) {
		i++
		if i%(burst*len(s.nodes)) == 0 {
			return silence, i % len(s.nodes)
		}
		return 0, i % len(s.nodes)
	}
}

// others are clients that nobody tracks, so many a second.
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
		s.after(exponential(s.rng, float64(perSecond)), step)
	}
	step()
}
