package delta

import (
	"context"
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/testkit/judge"
	"github.com/fastlimit/fastlimit/sketch"
)

// simClient is a client with what was admitted for it.
type simClient struct {
	name     string
	addr     netip.Addr
	pos      uint64
	cost     uint64
	conforms bool
	next     behaviour

	admitted []admission
	denied   int
	level    *judge.Client // of what it asked for, if it conforms
}

// behaviour returns how long to wait, and which node to send to then.
type behaviour func() (wait time.Duration, node int)

type admission struct {
	at    time.Duration
	units uint64
}

// wait is how long until a request of the client's conforms.
func (c *simClient) wait(now time.Duration, burst uint64) time.Duration {
	c.level.At(now)
	return c.level.Until(c.cost, burst)
}

// client adds a client that begins within a second.
func (s *sim) client(name string, next behaviour) *simClient {
	a := addrOf(len(s.clients) + 1)
	c := &simClient{name: name, addr: a, pos: s.position(a), cost: 1, next: next, level: judge.Leaky(fastlimit.Rate{N: s.rate, Per: time.Second})}
	s.clients = append(s.clients, c)
	s.after(time.Duration(s.rng.Int64N(int64(time.Second))), func() { s.step(c) })
	return c
}

// conforming adds a client that waits until its requests conform.
func (s *sim) conforming(name string, next behaviour) *simClient {
	c := s.client(name, next)
	c.conforms = true
	return c
}

func (s *sim) step(c *simClient) {
	wait, node := c.next()
	if c.conforms {
		wait = max(wait, c.wait(s.now(), s.burst))
	}
	s.after(wait, func() {
		if !s.quiet {
			s.ask(c, node)
			s.step(c)
		}
	})
}

// ask is one request at a node.
func (s *sim) ask(c *simClient, node int) {
	n := s.nodes[node]
	if n == nil || !n.up {
		return
	}
	now := s.now()
	if c.conforms {
		if c.wait(now, s.burst) > 0 {
			s.t.Fatalf("%s does not conform", c.name)
		}
		c.level.Admit(c.cost)
	}
	d := n.rule.Take(context.Background(), n.rule.AddrKey(c.addr), c.cost)
	if d.Allowed {
		c.admitted = append(c.admitted, admission{now, c.cost})
	} else {
		c.denied++
	}
	if d.Stage != fastlimit.StageFilter && d.Stage != fastlimit.StageTable {
		n.count(c, now)
	}
}

// count notes a hit for all who are to hear of it.
func (n *simNode) count(c *simClient, now time.Duration) {
	n.counted[c.pos] += c.cost
	h, ok := n.find(c.pos)
	h.at, h.epoch, h.pos, h.units = now, n.epoch, c.pos, c.cost
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
	for i := range n.rule.TopTalkers().Table.Slots() {
		if n.rule.TopTalkers().Table.Read(i, &s); s.Live && s.Pos == pos {
			return hit{slot: i, gen: s.Gen, count: s.Count}, true
		}
	}
	return hit{}, false
}

// catchUp notes what n, which is new, has yet to hear of from o.
func (n *simNode) catchUp(o *simNode) {
	for _, c := range n.sim.clients {
		if h, ok := o.find(c.pos); ok {
			h.at, h.epoch, h.pos = n.sim.now(), o.epoch, c.pos
			n.pending[o] = append(n.pending[o], h)
		}
	}
}

// lose notes that n will never hear of a hit.
func (n *simNode) lose(from *simNode, h hit) {
	k := lostKey{from, h.pos, h.epoch}
	n.lost[k] += h.units
	n.sim.lost = max(n.sim.lost, n.lost[k])
}

// settle removes what n has received from that node by now.
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
