package queue

import (
	"sync"
	"sync/atomic"
)

// Waiters are all waiting requests of a limiter and its successors. They are safe for concurrent use.
type Waiters struct {
	slots atomic.Int64  // taken
	end   chan struct{} // closed by Stop
	once  sync.Once
}

// NewWaiters returns a set without any.
func NewWaiters() *Waiters { return &Waiters{end: make(chan struct{})} }

// Stop ends all waiting, now and later. It may be called again.
func (w *Waiters) Stop() { w.once.Do(func() { close(w.end) }) }

// Stopped is closed by Stop.
func (w *Waiters) Stopped() <-chan struct{} { return w.end }

// Slots returns the number of taken slots.
func (w *Waiters) Slots() int64 { return w.slots.Load() }

// take takes a slot if fewer than total are taken.
func (w *Waiters) take(total int) bool {
	for n := w.slots.Load(); n < int64(total); n = w.slots.Load() {
		if w.slots.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (w *Waiters) ended() bool {
	select {
	case <-w.end:
		return true
	default:
		return false
	}
}
