package conn

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// cutGrace is how long connections get to end after they were cut.
const cutGrace = time.Second

// drainQuiet is how long a connection must have been idle before the drain ends it: a client that has just
// got an answer, or has just connected, is about to send.
const drainQuiet = 500 * time.Millisecond

// Front is all traffic listeners. They share their connections, so they start and
// drain together; [Front.Set] replaces some of them. It implements lifecycle.Front.
type Front struct {
	Conns *Conns
	// The listeners, and their addresses; owned by Set from Listen on.
	Listeners []*Listener
	Addresses []string

	// Spare makes Listen skip ports that another process shares, because the start will fail anyway: clients
	// that connected to them meanwhile would be reset.
	Spare bool

	// LetGo is called when the drain stops accepting: requests that wait for a slot are denied, and none wait
	// any more. nil: none ever wait.
	LetGo func()

	mu        sync.Mutex
	fail      func(error)    // from Begin; nil before; guarded by mu
	draining  bool           // no listener begins any more; guarded by mu
	accepting sync.WaitGroup // begun under mu, before draining is set
}

// Listen binds all addresses. Its error names each that failed.
func (f *Front) Listen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return BindAll(f.Listeners, f.Addresses, f.Spare)
}

// BindAll binds listeners to addresses. Ports shared with another process come last, and only if all others
// are bound and they are not spared: once bound they get clients.
func BindAll(all []*Listener, addresses []string, spare bool) error {
	var errs []error
	for _, shared := range []bool{false, true} {
		if shared && (spare || errors.Join(errs...) != nil) {
			break
		}
		for i, l := range all {
			if l.options.Load().ReusePort == shared {
				errs = append(errs, l.Bind(addresses[i]))
			}
		}
	}
	return errors.Join(errs...)
}

// Close unbinds what Listen has bound, if nothing was served.
func (f *Front) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.Listeners {
		l.Unbind()
	}
}

// Addrs are the bound addresses; nil unless all listeners are bound.
func (f *Front) Addrs() []net.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]net.Addr, len(f.Listeners))
	for i, l := range f.Listeners {
		if all[i] = l.Addr(); all[i] == nil {
			return nil
		}
	}
	return all
}

// Begin accepts connections until a drain. It calls fail for each listener that breaks.
func (f *Front) Begin(fail func(error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
	for _, l := range f.Listeners {
		f.acceptLocked(l)
	}
}

// Serve watches connections until ctx ends, after a drain.
func (f *Front) Serve(ctx context.Context) {
	f.Conns.Watch(ctx)
	f.accepting.Wait()
	f.Conns.Close()
}

func (f *Front) acceptLocked(l *Listener) {
	f.accepting.Go(func() {
		if err := l.Accept(); err != nil {
			f.fail(err)
		}
	})
}

// ErrNotServing means that nothing is served yet, or that the drain has begun.
var ErrNotServing = errors.New("the server is not serving")

// Set replaces the listeners, unless it returns an error. New ones are bound already, and begin to accept
// when ready has returned. Removed ones accept what is in their queues and close; their connections end as in
// a drain, within the timeout, after Set has returned.
func (f *Front) Set(next []*Listener, timeout time.Duration, ready func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil || f.draining {
		return ErrNotServing
	}
	ready()
	for _, l := range next {
		if !slices.Contains(f.Listeners, l) {
			f.acceptLocked(l)
		}
	}
	for _, l := range f.Listeners {
		if !slices.Contains(next, l) {
			f.accepting.Go(func() { f.Conns.retire(l, timeout) })
		}
	}
	f.Listeners = next
	return nil
}

// retire ends a listener and its connections, as Drain ends all.
func (c *Conns) retire(l *Listener, timeout time.Duration) {
	const step = 20 * time.Millisecond
	l.Refuse()
	time.Sleep(drainQuiet) // for those held back by the kernel until they send
	l.Drain()
	l.Close(time.Now().Add(DrainTime))
	c.mu.Lock()
	c.lastAnswersLocked(l)
	c.mu.Unlock()
	c.dismissQuiet(l, false) // records them
	end := time.Now().Add(timeout)
	for !c.emptyWithin(l, min(drainQuiet, time.Until(end)), step) && time.Until(end) > 0 {
		c.dismissQuiet(l, false)
	}
	c.endTunnels(l)
	if c.dismissQuiet(l, true) > 0 && !c.emptyWithin(l, cutGrace, step) {
		c.closeAll(l)
	}
}

// Drain ends all connections without losing a request that has reached one: every answer is the connection's
// last, no connection ends while its client may be about to send, and idle ones are read once more before
// they end. It returns how many were in the middle of a request and had to be cut.
func (f *Front) Drain(delay, timeout time.Duration) (cut int) {
	for _, l := range f.listeners() {
		l.AcceptAtOnce()
	}
	f.Conns.LastAnswers()
	time.Sleep(max(0, delay-drainQuiet))
	f.Conns.DismissQuiet(false)
	noted := time.Now()
	time.Sleep(min(delay, drainQuiet))

	end := time.Now().Add(timeout)
	if f.LetGo != nil {
		f.LetGo()
	}
	f.stopAccepting(drainQuiet - delay)
	f.Conns.EndTunnels()
	for !f.Conns.EmptyWithin(min(time.Until(noted.Add(drainQuiet)), time.Until(end))) && time.Until(end) > 0 {
		f.Conns.DismissQuiet(false)
		noted = time.Now()
	}
	if f.Conns.DismissQuiet(true) > 0 && !f.Conns.EmptyWithin(cutGrace) {
		cut = f.Conns.CloseAll()
		f.Conns.EmptyWithin(cutGrace)
	}
	return cut
}

func (f *Front) listeners() []*Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Listeners
}

// stopAccepting closes the listeners once their queues are empty. It waits a while for connections that the
// kernel holds back until they send.
func (f *Front) stopAccepting(wait time.Duration) {
	f.mu.Lock()
	f.draining = true
	all := f.Listeners
	f.mu.Unlock()
	for _, l := range all {
		l.Refuse()
	}
	time.Sleep(wait)
	late := time.Now().Add(DrainTime)
	for _, l := range all {
		l.Drain()
	}
	for _, l := range all {
		l.Close(late)
	}
}
