package feed

import "time"

// sending is one change on its way to the kernel.
type sending struct {
	ban *ban
	end time.Duration // end of the element; 0: it is removed
}

// take takes up to MaxBatch changes from the queue, until landed or failed returns them.
// The changes are appended to buf.
func (s *bans) take(now time.Duration, sent []sending, buf []Change) ([]sending, []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued > 0 && len(buf) < MaxBatch {
		b := s.queue.next
		s.dequeue(b)
		switch {
		case b.held() && b.end-now >= least:
			buf = append(buf, Change{b.prefix, b.end - now})
			sent = append(sent, sending{b, b.end})
		case b.inKernel > now && (!b.held() || b.inKernel > b.end+slack):
			buf = append(buf, Change{b.prefix, 0})
			sent = append(sent, sending{b, 0})
		case !b.held():
			s.settle(b, now, 0)
			continue
		default: // it would end before the kernel could hold it
			continue
		}
		b.flying = true
		s.flying++
	}
	return sent, buf
}

// landed records that the kernel has carried out the changes. It may have begun counting an
// element's life as late as now. If the call took long, the element lives that much longer,
// and has to be removed when its ban ends.
func (s *bans) landed(sent []sending, took, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range sent {
		t.ban.inKernel = 0
		if t.end != 0 {
			t.ban.inKernel = t.end + took
		}
		s.land(t.ban, now)
	}
}

// failed records that the kernel may or may not have carried out the changes, and puts them
// at the front of the queue.
func (s *bans) failed(sent []sending, took, now time.Duration, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range sent {
		if t.end != 0 {
			t.ban.inKernel = max(t.ban.inKernel, t.end+took)
		}
		s.land(t.ban, now)
		if again && s.all[t.ban.prefix] == t.ban {
			s.enqueue(t.ban)
		}
	}
}

func (s *bans) land(b *ban, now time.Duration) {
	b.flying = false
	s.flying--
	if !b.held() {
		s.settle(b, now, 0)
	}
}

// refill queues all bans in force, since the kernel has lost them. It locks for one batch
// at a time, so that no request waits for all of them.
func (s *bans) refill() {
	s.mu.RLock()
	all := append([]*ban(nil), s.ends...)
	s.mu.RUnlock()
	for at := 0; at < len(all); at += MaxBatch {
		s.mu.Lock()
		for _, b := range all[at:min(at+MaxBatch, len(all))] {
			if b.held() {
				s.enqueue(b)
			}
		}
		s.mu.Unlock()
	}
}
