package delta

import "time"

// simNetwork loses, doubles, delays and reorders, and is cut in two at times.
type simNetwork struct {
	loss, double  float64
	replay        float64 // what comes once more much later, as somebody between the nodes may do
	delay, jitter time.Duration
	notice        time.Duration // until membership notices what has changed

	sim  *sim
	side []int // of the partition, by index of node; nil: none
}

func (w *simNetwork) init(s *sim) {
	w.sim = s
	if w.notice == 0 {
		w.notice = time.Second
	}
}

func (w *simNetwork) cut(a, b *simNode) bool {
	return w.sim.apart || w.side != nil && w.side[a.index] != w.side[b.index]
}

func (w *simNetwork) send(from, to *simNode, packet []byte) {
	s := w.sim
	if w.cut(from, to) {
		return
	}
	loss, double, jitter := w.loss, w.double, w.jitter
	if s.quiet && s.now() > s.healed {
		loss, double, jitter = 0, 0, 0 // the last fault is over
	}
	copies := 1
	if s.rng.Float64() < double {
		copies = 2
	}
	for range copies {
		if s.rng.Float64() < loss {
			continue
		}
		d := w.delay
		if jitter > 0 {
			d += time.Duration(s.rng.Int64N(int64(jitter)))
		}
		s.after(d, func() { to.receive(from, packet) })
	}
	if w.replay > 0 && s.rng.Float64() < w.replay {
		s.after(time.Duration(s.rng.Int64N(int64(30*time.Second))), func() { to.receive(from, packet) })
	}
}

// meet has two nodes learn of each other, or again, each in its own time.
func (w *simNetwork) meet(a, b *simNode) {
	w.sim.unwell(w.notice / 4)
	for _, p := range [][2]*simNode{{a, b}, {b, a}} {
		w.sim.after(time.Duration(w.sim.rng.Int64N(int64(w.notice)/4)), func() {
			if p[0].up && p[1].up && !w.cut(p[0], p[1]) {
				p[0].state.Join(p[1].name, p[1].incarnation, p[0].clock())
			}
		})
	}
}

// part has a learn that b is gone.
func (w *simNetwork) part(a, b *simNode) {
	w.sim.after(w.notice/2+time.Duration(w.sim.rng.Int64N(int64(w.notice)/2)), func() {
		gone := !b.up && w.sim.nodes[b.index] == b || w.cut(a, b)
		if a.up && gone {
			a.state.Leave(b.name, a.clock())
		}
	})
}

// split cuts the cluster in two, or into single nodes, and heals it in the end.
func (s *sim) split() {
	w := &s.network
	w.side = make([]int, len(s.nodes))
	for i := range w.side {
		w.side[i] = s.rng.IntN(2)
		if s.alone {
			w.side[i] = i
		}
	}
	w.side[0], w.side[len(w.side)-1] = 0, len(w.side)-1
	s.pairs(func(a, b *simNode) {
		if w.cut(a, b) {
			w.part(a, b)
		}
	})
	s.unwell(s.partition)
	s.after(s.partition, func() {
		w.side = nil
		s.pairs(func(a, b *simNode) {
			if a.index < b.index {
				w.meet(a, b)
			}
		})
	})
}

func (s *sim) pairs(f func(a, b *simNode)) {
	for _, a := range s.nodes {
		for _, b := range s.nodes {
			if a != nil && b != nil && a != b && a.up && b.up {
				f(a, b)
			}
		}
	}
}

// crash ends the life of node i, and may begin another after a while.
func (s *sim) crash(i int, again bool) {
	n := s.nodes[i]
	if n == nil || !n.up {
		return
	}
	n.up = false
	untold := false
	for _, o := range s.nodes {
		if o != nil && o != n && o.up {
			s.network.part(o, n)
			untold = untold || len(o.pending[n]) > 0
			delete(o.pending, n) // what it did not send, nobody will
		}
	}
	if untold {
		s.deaths++
	}
	if again {
		down := time.Duration(s.rng.Int64N(int64(3 * time.Second)))
		s.unwell(down)
		s.after(down, func() { s.boot(i) })
	}
}
