//go:build linux && (amd64 || arm64)

package upstream

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
)

// asking is a [Conn.Ask] in progress: one callback of [syscall.RawConn.Read], which checks and writes in its
// first call, and reads when the poller has noticed the answer. With [net.Conn] a request takes one more read
// in vain, and involves the scheduler in each call. Go's poller is made ready before the first call, so it
// cannot miss the answer; the check finds whatever had arrived before.
type asking struct {
	step    func(fd uintptr) bool
	request []byte // the unwritten rest
	into    []byte // not empty
	n       int    // of into
	phase   askPhase
	err     error
}

type askPhase uint8

const (
	askNew    askPhase = iota
	askStale           // nothing was written
	askPart            // the socket is full
	askSent            // waiting for the answer
	askFailed          // while writing
)

// reading and writing are a Read and a Write in progress.
type reading struct {
	step    func(fd uintptr) bool
	p       []byte
	timeout time.Duration
	called  bool
	n       int
	err     error
}

type writing struct {
	step   func(fd uintptr) bool
	p      []byte // the unwritten rest
	waits  int    // len(p) when it last waited; -1: not yet
	called bool
	err    error
}

// openRaw makes the socket be used directly, if there is one.
func (c *Conn) openRaw() {
	if c.raw = nowait.Raw(c.socket); c.raw != nil {
		c.asking.step, c.reading.step, c.writing.step = c.askStep, c.readStep, c.writeStep
	}
}

// askRaw is Ask.
func (c *Conn) askRaw(request, into []byte) (int, error) {
	a := &c.asking
	a.request, a.into, a.n, a.err, a.phase = request, into, 0, nil, askNew
	c.heading = false
	err := c.extendRead(c.pool.config.ResponseTimeout)
	c.heading = true
	if err == nil {
		err = c.raw.Read(a.step)
	}
	rest := a.request
	a.request, a.into = nil, nil
	switch {
	case err == nil && a.phase == askPart:
		if _, err = c.Write(rest); err != nil {
			return 0, err
		}
		c.heading = false
		return c.AwaitHead(into)
	case a.phase == askStale:
		return 0, c.stale(a.err)
	case err == nil:
		err = a.err
	}
	if err != nil {
		return 0, c.failed(err)
	}
	c.answered = true
	return a.n, nil
}

// askStep is one call of the callback; it wants another call when something has arrived.
func (c *Conn) askStep(fd uintptr) (done bool) {
	a := &c.asking
	if a.phase == askSent {
		a.n, a.err = receive(fd, a.into, 0)
		return a.err != syscall.EAGAIN //nolint:errorlint // as receive returns it
	}
	if !c.clean {
		n, err := receive(fd, a.into, 0)
		if n > 0 {
			err = errUnasked
		}
		if err != syscall.EAGAIN { //nolint:errorlint // as receive returns it
			a.phase, a.err = askStale, err
			return true
		}
		c.clean = true
	}
	n, err := send(fd, a.request)
	a.request = a.request[n:]
	switch {
	case len(a.request) == 0:
		a.phase = askSent
		return false
	case err == nil || err == syscall.EAGAIN: //nolint:errorlint // as send returns it
		a.phase = askPart
	default:
		a.phase, a.err = askFailed, err
	}
	return true
}

// peek checks what has arrived.
func (c *Conn) peek() (n int, err error) {
	var p [1]byte
	if failed := c.raw.Control(func(fd uintptr) { n, err = receive(fd, p[:], syscall.MSG_PEEK) }); failed != nil {
		return 0, failed
	}
	if err == syscall.EAGAIN { //nolint:errorlint // as receive returns it
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// readRaw reads once.
func (c *Conn) readRaw(p []byte, timeout time.Duration) (int, error) {
	r := &c.reading
	r.p, r.timeout, r.called, r.n, r.err = p, timeout, false, 0, nil
	err := c.raw.Read(r.step)
	if !r.called && errors.Is(err, os.ErrDeadlineExceeded) && !c.heading {
		// The deadline was for an earlier read, and has passed since.
		if err = c.extendRead(timeout); err == nil {
			err = c.raw.Read(r.step)
		}
	}
	r.p = nil
	if err == nil {
		err = r.err
	}
	return r.n, err
}

func (c *Conn) readStep(fd uintptr) (done bool) {
	r := &c.reading
	r.n, r.err = receive(fd, r.p, 0)
	if r.err != syscall.EAGAIN { //nolint:errorlint // as receive returns it
		r.called = true
		return true
	}
	if !r.called {
		r.called = true
		if err := c.extendRead(r.timeout); err != nil {
			r.err = err
			return true
		}
	}
	return false
}

// writeRaw writes all of p.
func (c *Conn) writeRaw(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	w := &c.writing
	w.p, w.waits, w.called, w.err = p, -1, false, nil
	err := c.raw.Write(w.step)
	if !w.called && errors.Is(err, os.ErrDeadlineExceeded) {
		if err = c.extendWrite(); err == nil {
			err = c.raw.Write(w.step)
		}
	}
	n := len(p) - len(w.p)
	w.p = nil
	if err == nil {
		err = w.err
	}
	return n, err
}

func (c *Conn) writeStep(fd uintptr) (done bool) {
	w := &c.writing
	w.called = true
	for len(w.p) > 0 {
		n, err := send(fd, w.p)
		w.p = w.p[n:]
		switch {
		case n > 0:
		case err == syscall.EAGAIN: //nolint:errorlint // as send returns it
			if len(w.p) != w.waits { // something was written since the last wait
				w.waits = len(w.p)
				w.err = c.extendWrite()
			}
			return w.err != nil
		default:
			w.err = err
			return true
		}
	}
	return true
}

// receive and send are those of nowait with Go's errors: io.EOF at the end.
func receive(fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, errno := nowait.Receive(fd, p, flags)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func send(fd uintptr, p []byte) (int, error) {
	for {
		n, errno := nowait.Send(fd, p)
		switch errno {
		case 0:
			return n, nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
