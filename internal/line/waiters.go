package line

import (
	"sync"
	"sync/atomic"
)

// Waiters are all who wait in limiters that go on with the state of one another.
type Waiters struct {
	places atomic.Int64  // that are taken
	end    chan struct{} // closed when nobody is to wait any more
	once   sync.Once
}

// NewWaiters returns none.
func NewWaiters() *Waiters { return &Waiters{end: make(chan struct{})} }

// Stop has nobody wait any more. It may be called again.
func (w *Waiters) Stop() { w.once.Do(func() { close(w.end) }) }

// Stopped is closed when nobody is to wait any more.
func (w *Waiters) Stopped() <-chan struct{} { return w.end }

// Places is how many are taken.
func (w *Waiters) Places() int64 { return w.places.Load() }

// take takes one place of so many, if one is free.
func (w *Waiters) take(total int) bool {
	for n := w.places.Load(); n < int64(total); n = w.places.Load() {
		if w.places.CompareAndSwap(n, n+1) {
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
