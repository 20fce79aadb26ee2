package count

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// Shared counts in a store that several processes use, as envoyproxy/ratelimit does: each
// counter is a number, whose key names the window. It is safe for concurrent use.
//
// All hits are counted in this process too. That count decides where the store does not
// answer in time, and it learns what the store says: it is then at least as high.
//
// A counter has one operation in flight. Hits that come meanwhile are sent together by the
// next, so that a flood costs the store no more than an operation for each round trip. Hits
// of which this process knows already that they are over their limit wait for no answer.
type Shared struct {
	local   *Counters
	store   bucket.Store
	prefix  string
	timeout time.Duration

	mu      sync.Mutex
	flights map[string]*flight // by the key in the store; guarded by mu
}

// flight are the operations of one counter, one after the other. Guarded by Shared.mu.
type flight struct {
	op      bucket.Op
	sent    []*share // in flight
	waiting []*share // that the next operation sends
	learn   func(count uint64)
}

// share is the part of one hit in an operation. Guarded by Shared.mu, but for done.
type share struct {
	hits    uint64
	count   uint64
	counted bool
	done    chan<- struct{} // nil if nobody waits
}

// NewShared returns a counter in a store. prefix precedes all keys in it, and timeout is how
// long a request waits for an answer.
func NewShared(local *Counters, store bucket.Store, prefix string, timeout time.Duration) *Shared {
	return &Shared{local: local, store: store, prefix: prefix, timeout: timeout, flights: map[string]*flight{}}
}

// Named reports that hits need a name.
func (*Shared) Named() bool { return true }

// Add is [Counters.Add] with the counts of the store, as far as it answers in time.
func (s *Shared) Add(now time.Duration, hits []Hit) error {
	if err := s.local.Add(now, hits); err != nil {
		return err
	}
	shares := make([]*share, len(hits))
	done := make(chan struct{}, len(hits))
	waits, patience := 0, s.timeout
	s.mu.Lock()
	for i := range hits {
		h := &hits[i]
		patience = min(patience, s.timeout-h.waited)
		sh := &share{hits: min(h.Hits, tooMany)}
		if h.Count <= h.Limit {
			sh.done, shares[i] = done, sh
			waits++
		}
		s.joinLocked(now, h, sh)
	}
	s.mu.Unlock()
	s.wait(done, waits, patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, sh := range shares {
		if sh != nil && sh.counted {
			hits[i].Count = max(sh.count, min(hits[i].Hits, tooMany))
		}
	}
	return nil
}

// Ask is [Counters.Ask]. An Add of the same hits afterwards waits only for what is left of
// the timeout.
func (s *Shared) Ask(now time.Duration, hits []Hit) error {
	start := time.Now()
	asks := make([]Hit, len(hits))
	for i, h := range hits {
		asks[i], asks[i].Hits = h, 0
	}
	if err := s.Add(now, asks); err != nil {
		return err
	}
	for i := range hits {
		hits[i].Count, hits[i].waited = asks[i].Count+min(hits[i].Hits, tooMany), time.Since(start)
	}
	return nil
}

// wait waits until n shares are done, or too long.
func (s *Shared) wait(done <-chan struct{}, n int, patience time.Duration) {
	if n == 0 {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for range n {
		select {
		case <-done:
		case <-timer.C:
			return
		}
	}
}

// joinLocked adds a share to the operations of its counter.
func (s *Shared) joinLocked(now time.Duration, h *Hit, sh *share) {
	long := h.Unit.Duration()
	begin := now - now%long
	name := s.prefix + string(h.Name) + strconv.FormatInt(int64(begin/time.Second), 10)
	f := s.flights[name]
	if f != nil {
		f.waiting = append(f.waiting, sh)
		return
	}
	t, err := s.local.table(h.Unit)
	if err != nil {
		return // Add has refused it
	}
	d, ticks := s.local.hasher.Bytes(h.Key), t.shape.WindowTicks(now)
	f = &flight{waiting: []*share{sh}, learn: func(count uint64) {
		t.Settle(d, ticks, 0, ticks+min(count, bucket.MaxWindowUnits))
	}}
	f.op = bucket.Op{Kind: bucket.Take, Algorithm: bucket.FixedWindow, Key: name, Shape: t.shape, Count: 1}
	s.flights[name] = f
	s.sendLocked(f)
}

// sendLocked sends the shares that wait. Without a store they are done, and count here only.
func (s *Shared) sendLocked(f *flight) {
	f.sent, f.waiting = f.waiting, nil
	op := f.op // a store may still look at the one before
	for _, sh := range f.sent {
		op.Cost += sh.hits
	}
	op.Done = func(_ *bucket.Op, r bucket.Reply, err error) { s.answered(f, r, err) }
	if s.store.Submit(&op) != nil {
		s.finishLocked(f)
	}
}

// answered gives each share of an operation its count, and sends those that came meanwhile.
func (s *Shared) answered(f *flight, r bucket.Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		f.learn(r.Level)
		count := r.Level
		for _, sh := range slices.Backward(f.sent) { // the last share has the highest count
			sh.count, sh.counted = count, true
			count -= min(count, sh.hits)
		}
	}
	s.finishLocked(f)
}

// finishLocked ends an operation.
func (s *Shared) finishLocked(f *flight) {
	for _, sh := range f.sent {
		if sh.done != nil {
			sh.done <- struct{}{}
		}
	}
	if f.sent = nil; len(f.waiting) > 0 {
		s.sendLocked(f)
		return
	}
	delete(s.flights, f.op.Key)
}
