package feed

import (
	"container/heap"
	"net/netip"
	"sync"
	"time"
)

const (
	// slack is by how much the kernel's end of a ban may differ from ours before it is sent
	// again. Repeated calls of Add, each with the time left, differ by less.
	slack = 20 * time.Millisecond

	// least is the shortest life that is sent to the kernel, which counts in ticks of up to
	// 10 ms; 0 ticks mean forever.
	least = 20 * time.Millisecond
)

// bans are the prefixes that should be banned, and the changes that have yet to be sent to
// the kernel. Times are since the start of the feed.
type bans struct {
	max    int
	shadow bool // nothing is sent

	mu      sync.RWMutex // guards all below, and the fields of each ban
	all     map[netip.Prefix]*ban
	ends    ends // of those in force
	lengths lengths
	queue   ban // the ring of those to be sent: the next one is queue.next
	queued  int
	flying  int // number that the worker is sending
}

// ban is one prefix. It is in the map while it is in force, while the kernel may hold it
// for longer, and while the worker sends it.
type ban struct {
	prefix     netip.Prefix
	end        time.Duration
	inKernel   time.Duration // the latest end that the kernel may have
	prev, next *ban          // in the queue, or nil
	place      int32         // in ends, or notHeld
	flying     bool          // the worker is sending it
}

const notHeld = -1

func (b *ban) held() bool { return b.place != notHeld }

func newBans(c *Config) *bans {
	s := &bans{max: c.Max, shadow: c.Shadow, all: make(map[netip.Prefix]*ban)}
	s.queue.prev, s.queue.next = &s.queue, &s.queue
	return s
}

// holds reports whether the prefix is banned until end, or nearly so. A repeated Add costs
// no more than this.
func (s *bans) holds(p netip.Prefix, end, now time.Duration) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b := s.all[p]
	return b != nil && b.held() && b.end > now && b.end >= end-slack
}

// covers reports whether a ban of any prefix length covers the address.
func (s *bans) covers(a netip.Addr, now time.Duration) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, l := range *s.lengths.of(a) {
		if l.bans == 0 {
			continue
		}
		p, err := a.Prefix(l.bits)
		if b := s.all[p]; err == nil && b != nil && b.held() && b.end > now {
			return true
		}
	}
	return false
}

// hold begins a ban, or extends it: it never ends earlier than it would have.
func (s *bans) hold(p netip.Prefix, end, now time.Duration) (refused Refusal, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.all[p]
	if b != nil && b.held() {
		if b.end < end {
			b.end = end
			heap.Fix(&s.ends, int(b.place))
			s.enqueue(b)
		}
		return 0, true
	}
	if len(s.ends) >= s.max || len(s.all) >= 2*s.max {
		s.expireLocked(now)
		b = s.all[p]
	}
	switch {
	case len(s.ends) >= s.max, b == nil && len(s.all) >= 2*s.max:
		return RefusedFull, false
	case !s.lengths.add(p, 1):
		return RefusedLengths, false
	}
	if b == nil {
		b = &ban{prefix: p}
		s.all[p] = b
	}
	b.end = end
	heap.Push(&s.ends, b)
	s.enqueue(b)
	return 0, true
}

// drop ends a ban. It returns false if there is none.
func (s *bans) drop(p netip.Prefix, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.all[p]
	if b == nil || !b.held() {
		return false
	}
	ran := b.end > now
	heap.Remove(&s.ends, int(b.place))
	s.lengths.add(p, -1)
	s.settle(b, now, 0)
	return ran
}

// expire ends the bans whose time has come, and returns when the next one ends.
func (s *bans) expire(now time.Duration) (next time.Duration, some bool) {
	for {
		s.mu.Lock()
		more := s.expireLocked(now)
		if some = len(s.ends) > 0; some {
			next = s.ends[0].end
		}
		s.mu.Unlock()
		if !more {
			return next, some
		}
	}
}

// expireLocked ends a batch's worth of bans, so that no request waits for all that end at
// once. It reports whether there are more.
func (s *bans) expireLocked(now time.Duration) (more bool) {
	for range MaxBatch {
		if len(s.ends) == 0 || s.ends[0].end > now {
			return false
		}
		b := s.ends[0]
		heap.Pop(&s.ends)
		s.lengths.add(b.prefix, -1)
		s.settle(b, now, slack)
	}
	return true
}

// settle forgets a ban that has ended, unless the kernel may hold it for longer than the
// grace: then its removal has to be sent first.
func (s *bans) settle(b *ban, now, grace time.Duration) {
	switch {
	case b.flying: // landed calls again
	case b.inKernel > now+grace:
		s.enqueue(b)
	default:
		s.dequeue(b)
		delete(s.all, b.prefix)
	}
}

// size returns how many bans are in force, and how many changes have yet to be sent.
func (s *bans) size(now time.Duration) (held, queued int) {
	s.expire(now)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.ends), s.queued + s.flying
}

// enqueue puts a ban at the end of the queue, unless it is in it already.
func (s *bans) enqueue(b *ban) {
	if b.next != nil || s.shadow {
		return
	}
	b.prev, b.next = s.queue.prev, &s.queue
	b.prev.next, s.queue.prev = b, b
	s.queued++
}

func (s *bans) dequeue(b *ban) {
	if b.next == nil {
		return
	}
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
	s.queued--
}

// ends is a heap of the bans in force, the next to end first.
type ends []*ban

func (h ends) Len() int           { return len(h) }
func (h ends) Less(i, j int) bool { return h[i].end < h[j].end }
func (h ends) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = int32(i), int32(j) // below MostBans
}

// Push implements [heap.Interface].
func (h *ends) Push(x any) {
	b := x.(*ban)            // see ends
	b.place = int32(len(*h)) // below MostBans
	*h = append(*h, b)
}

// Pop implements [heap.Interface].
func (h *ends) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	b.place = notHeld
	return b
}
