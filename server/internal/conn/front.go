package conn

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// cutGrace is how long connections get to end after they were cut.
const cutGrace = time.Second

// drainQuiet is how long a connection must have been idle for the drain to end
// it: a client that has just got an answer, or has just connected, is about to
// send.
const drainQuiet = 500 * time.Millisecond

// Front is all traffic listeners. They share their connections, so they start and
// drain together. It implements lifecycle.Front.
type Front struct {
	Conns     *Conns
	Listeners []*Listener
	Addresses []string // of the listeners

	// LetGo is called when the drain stops accepting: those who wait for a place in line
	// are denied, and nobody waits any more. nil: nobody ever waits.
	LetGo func()
}

// Listen binds all addresses. Its error names each that failed.
func (f *Front) Listen() error {
	var errs []error
	for i, l := range f.Listeners {
		errs = append(errs, l.Bind(f.Addresses[i]))
	}
	return errors.Join(errs...)
}

// Close unbinds what Listen has bound, if nothing was served.
func (f *Front) Close() {
	for _, l := range f.Listeners {
		l.Unbind()
	}
}

// Addrs are the bound addresses; nil unless all listeners are bound.
func (f *Front) Addrs() []net.Addr {
	all := make([]net.Addr, len(f.Listeners))
	for i, l := range f.Listeners {
		if all[i] = l.Addr(); all[i] == nil {
			return nil
		}
	}
	return all
}

// Serve accepts and watches connections until ctx ends, after a drain. It calls fail
// for each listener that breaks.
func (f *Front) Serve(ctx context.Context, fail func(error)) {
	var accepting sync.WaitGroup
	for _, l := range f.Listeners {
		accepting.Go(func() {
			if err := l.Accept(); err != nil {
				fail(err)
			}
		})
	}
	f.Conns.Watch(ctx)
	accepting.Wait()
	f.Conns.Close()
}

// Drain ends all connections without losing a request that has reached one: every
// answer is the connection's last, no connection ends while its client may be about
// to send, and idle ones are read once more before they end. It returns how many
// were in the middle of a request and had to be cut.
func (f *Front) Drain(delay, timeout time.Duration) (cut int) {
	f.Conns.LastAnswers()
	time.Sleep(max(0, delay-drainQuiet))
	f.Conns.DismissQuiet(false)
	noted := time.Now()
	time.Sleep(min(delay, drainQuiet))

	end := time.Now().Add(timeout)
	if f.LetGo != nil {
		f.LetGo()
	}
	f.stopAccepting()
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

// stopAccepting closes the listeners once their queues are empty.
func (f *Front) stopAccepting() {
	late := time.Now().Add(SettleTime)
	for _, l := range f.Listeners {
		l.Settle()
	}
	for _, l := range f.Listeners {
		l.Close(late)
	}
}
