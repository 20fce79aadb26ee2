package load

import "time"

// probe sends the next request of the probe, when it is due and the last one has been
// answered: one that had to wait was due all the same.
func (s *spinner) probe() {
	if s.Probe == nil || s.conns[s.Conns].state != spinFree {
		return
	}
	if now := s.now(); now >= s.probeDue {
		s.send(int32(s.Conns), s.probeDue, now)
		s.probeDue += int64(float64(time.Second) / s.Probe.Rate)
	}
}

// attend looks after the probe between two events of the load. A crowd of new
// connections has hundreds of them at a time, of tens of microseconds each, which the
// probe would have to wait for.
func (s *spinner) attend() error {
	if s.Probe == nil || s.probeDue == 0 { // or connections are only being opened
		return nil
	}
	if i := int32(s.Conns); s.conns[i].state == spinWaiting {
		if err := s.event(i); err != nil {
			return err
		}
	}
	s.probe()
	return nil
}

// isProbe reports whether a connection is the probe's.
func (s *spinner) isProbe(i int32) bool { return int(i) == s.Conns }
