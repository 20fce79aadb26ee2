package fleet

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// lossy is a way to a store. Operations and answers get lost on it, are late or come
// twice, and now and then it is cut.
type lossy struct {
	bucket.Store

	late    time.Duration                  // longest delay
	doubles func(op *bucket.Op)            // is called with each operation that comes twice
	settled func(op *bucket.Op, err error) // and with each other one, when the store has carried it out, or will not
	armed   atomic.Bool                    // before that nothing happens
	pending sync.WaitGroup

	mu   sync.Mutex
	rng  *rand.Rand // guarded by mu
	cut  time.Time  // until when; guarded by mu
	next time.Time  // when it is cut again; guarded by mu
}

var errLost = errors.New("lost")

// What happens to an operation.
const (
	refused = iota
	lostThere
	lostBack
	lateThere
	lateBack
	twice
	nothing
)

// fault is what happens to the next operation, and a delay for it.
func (s *lossy) fault() (what int, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.After(s.next) {
		s.cut = now.Add(time.Duration(s.rng.Int64N(int64(time.Second))))
		s.next = s.cut.Add(time.Duration(s.rng.Int64N(int64(6 * time.Second))))
	}
	if now.Before(s.cut) {
		return refused, 0
	}
	what, delay = s.rng.IntN(30), 1+time.Duration(s.rng.Int64N(int64(s.late)))
	if what <= twice {
		return what, delay
	}
	return []int{lateThere, lateBack, nothing}[what%3], 1 + delay/20 // as on any way
}

// Submit implements [bucket.Store].
func (s *lossy) Submit(op *bucket.Op) error {
	if !s.armed.Load() {
		return s.Store.Submit(op)
	}
	fault, delay := s.fault()
	if fault == refused {
		s.settled(op, bucket.ErrAway)
		return bucket.ErrAway
	}
	done := op.Done
	s.pending.Add(1)
	give := func(op *bucket.Op, r bucket.Reply, err error) { done(op, r, err); s.pending.Done() }
	answer := func(op *bucket.Op, r bucket.Reply, err error) { s.settled(op, err); give(op, r, err) }
	lose := func() { give(op, bucket.Reply{}, errLost) }
	op.Done = answer
	switch fault {
	case lostThere:
		s.settled(op, errLost)
		time.AfterFunc(delay, lose)
		return nil
	case lostBack:
		op.Done = func(op *bucket.Op, _ bucket.Reply, err error) { s.settled(op, err); time.AfterFunc(delay, lose) }
	case lateThere:
		time.AfterFunc(delay, func() { s.submit(op) })
		return nil
	case lateBack:
		op.Done = func(op *bucket.Op, r bucket.Reply, err error) {
			time.AfterFunc(delay, func() { answer(op, r, err) })
		}
	case twice:
		again := *op
		s.doubles(&again)
		s.pending.Add(1)
		again.Done = func(*bucket.Op, bucket.Reply, error) { s.pending.Done() }
		time.AfterFunc(delay, func() { s.submit(&again) })
	}
	err := s.Store.Submit(op)
	if err != nil { // then Done is not called, and must not be
		s.settled(op, err)
		op.Done = done
		s.pending.Done()
	}
	return err
}

// submit is for an operation that was accepted before.
func (s *lossy) submit(op *bucket.Op) {
	if err := s.Store.Submit(op); err != nil {
		op.Done(op, bucket.Reply{}, err)
	}
}
