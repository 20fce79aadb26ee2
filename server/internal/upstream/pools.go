package upstream

import "sync"

// Pools are the pools used so far, one after the other. Counts continue when one replaces another. The zero
// value has none. It is safe for concurrent use.
type Pools struct {
	mu      sync.Mutex
	current *Pool
	retired []*Pool // closed, with connections that are still lent
	past    Stats   // of earlier ones; their levels are 0
}

// Set replaces the current pool and closes the previous one.
func (s *Pools) Set(next *Pool) {
	s.mu.Lock()
	last := s.current
	s.current = next
	if last != nil {
		s.retired = append(s.retired, last)
	}
	s.mu.Unlock()
	if last != nil {
		last.Close()
	}
}

// Current is the pool of the last Set; nil before.
func (s *Pools) Current() *Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Close closes the current pool, if there is one.
func (s *Pools) Close() {
	if p := s.Current(); p != nil {
		p.Close()
	}
}

// Stats adds up all counts, the current pool's servers first. There must be one.
func (s *Pools) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.current.Stats()
	for _, p := range s.retired {
		sum.add(p.Stats())
	}
	sum.add(s.past)
	return sum
}

// EndSecond drops pools with no lent connections; their counts stay.
func (s *Pools) EndSecond() {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.retired[:0]
	for _, p := range s.retired {
		if stats := p.Stats(); stats.inUse() > 0 {
			kept = append(kept, p)
		} else {
			s.past.add(stats)
		}
	}
	clear(s.retired[len(kept):])
	s.retired = kept
}

func (s *Stats) inUse() (n int) {
	for i := range s.Servers {
		n += s.Servers[i].InUse
	}
	return n
}

// add adds another pool's counts, server by server. A server that is not in the current pool is not ejected.
func (s *Stats) add(o Stats) {
	s.Queue += o.Queue
	s.Served += o.Served
	s.Full += o.Full
	s.TimedOut += o.TimedOut
	s.Left += o.Left
	s.Queued.Add(&o.Queued)
	for i := range o.Servers {
		s.server(o.Servers[i].Name).add(&o.Servers[i])
	}
}

func (s *Stats) server(name string) *ServerStats {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return &s.Servers[i]
		}
	}
	s.Servers = append(s.Servers, ServerStats{Name: name, DialErrors: map[string]uint64{}})
	return &s.Servers[len(s.Servers)-1]
}

func (s *ServerStats) add(o *ServerStats) {
	s.InUse += o.InUse
	s.Idle += o.Idle
	s.Requests += o.Requests
	s.Dials += o.Dials
	s.Failures += o.Failures
	s.Ejections += o.Ejections
	s.Connect.Add(&o.Connect)
	s.FirstByte.Add(&o.FirstByte)
	for class, n := range o.DialErrors {
		s.DialErrors[class] += n
	}
}
