//go:build linux && (amd64 || arm64)

package conn

import (
	"bytes"
	"runtime"
	"sync"
	"syscall"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
)

// resident answers the simple requests of a connection. While nothing else arrives, the connection's
// goroutine stays within one callback of [syscall.RawConn.Read]: woken by the poller it reads once, parses
// the head in one pass, answers with one write, and waits again. That takes two system calls per request
// where fasthttp's loop takes three, and an idle connection holds no buffer.
//
// A request is simple if its head arrives whole and fits smallHead, has no body and no field that asks for
// more than an answer ([Head]), and if [Handlers].Answer takes it. At the first other one, fasthttp gets all
// its bytes ([input.replay]) and keeps the connection to its end. So only fasthttp parses odd input, and both
// paths give the same answers (FuzzSameAnswers, TestSameAtBounds).
type resident struct {
	rawSocket
	buf        []byte
	start, end int  // of what was read and not answered yet, in buf
	look       bool // this step checks for more input before it waits
	head       Head
	out        []byte // answers not sent yet
	sent       int    // bytes of out that were sent while the next answer was pending
}

// Trap: Go's poller is edge-triggered, and requests and the FIN after them may be one edge, so waiting right
// after the last request may wait forever. A step therefore reads until nothing is left if it is the
// connection's first, or the first since it was parked, or has answered more than one request. On a busy
// connection with one request at a time that would be a third call per request, and recvmsg with TCP_INQ,
// which says what is left, costs 4 to 6 % of the CPU of a request ([decision 14]). There a sweep finds the
// FIN of a client that half-closes right after a later request ([Conns.lookAtQuiet]).
//
// [decision 14]: docs/decisions/0014-heads-in-one-pass.md

// maxPerStep is how many requests of one connection are answered before other goroutines run: a client that
// pipelines must not starve others.
const maxPerStep = 16

// maxUnsent is how many bytes of answers are collected before they are sent: a client that pipelines and does
// not read takes at most that and one answer.
const maxUnsent = 8 << 10

// residents is a pool, which keeps about one state per core.
type residents struct {
	pool sync.Pool
	head int // size of their buffers
}

func newResidents(head int) *residents {
	return &residents{sync.Pool{New: func() any { return &resident{buf: make([]byte, head)} }}, head}
}

// takes reports whether a resident has room for what was already read.
func (r *residents) takes(data []byte) bool { return len(data) <= r.head }

// reside answers simple requests until the connection is parked or ends, or another kind of request comes.
func (l *Listener) reside(c *Conn) (next step) {
	raw := nowait.Raw(c.Conn)
	if raw == nil || l.answer == nil || len(c.in.replay) > 0 && !l.residents.takes(c.in.replay) {
		return handOver
	}
	c.parking.resides.Store(true)
	for {
		next, err := l.steps(c, raw)
		switch {
		case err == nil:
		case c.takeOrder():
			if c.park() {
				return isParked
			}
			continue
		case len(c.in.replay) > 0: // what has arrived is answered first
		case c.in.served > 0:
			// A deadline, perhaps meant for a request that has been answered since: the connection ends
			// silently (TestOverdueAfterAnAnswer).
			c.orders.leave.Store(true)
		}
		c.moveOut()
		return next
	}
}

// steps answers what arrives until something other than waiting has to follow. Its error is that of a wait
// that ended; the rest must then be left to others.
func (l *Listener) steps(c *Conn, raw syscall.RawConn) (next step, err error) {
	err = raw.Read(func(fd uintptr) bool {
		r := l.residents.pool.Get().(*resident)
		r.open(fd)
		r.look = c.in.served == 0 || c.parking.resumed
		c.parking.resumed = false
		if len(c.in.replay) > 0 { // came with what preceded the first request
			r.end = copy(r.buf, c.in.replay)
			c.in.replay = nil
		}
		c.out.unsent = r
		next = r.step(l, c)
		c.out.unsent = nil
		r.out = r.out[:0]
		r.start, r.end = 0, 0
		l.residents.pool.Put(r)
		return next != wait
	})
	if err != nil {
		next = handOver
	}
	return next, err
}

// step answers all simple requests that have arrived.
func (r *resident) step(l *Listener, c *Conn) step {
	for served := 0; ; {
		n, what := r.head.read(r.buf[r.start:r.end])
		if what == partial {
			if !r.send(c) {
				return end
			}
			if got := r.fill(); got != arrived {
				return r.yield(c, got)
			}
			continue
		}
		last, ok := false, false
		if what == whole {
			last, ok = r.answer(l, c)
		}
		if ok {
			r.start += n
			served++
			r.look = r.look || served > 1
			if !last && served%maxPerStep > 0 && len(r.out) < maxUnsent {
				continue
			}
		}
		switch sent := r.send(c); {
		case !sent:
			return end
		case !ok:
			return r.replay(c)
		case last:
			return end
		}
		runtime.Gosched()
	}
}

// answer answers the request with the head that was read. If not ok nothing has happened; last ends the
// connection.
func (r *resident) answer(l *Listener, c *Conn) (last, ok bool) {
	was := c.in.gate.skip(&r.head)
	if r.out, last, ok = l.answer(r.out, c, &r.head); !ok {
		c.in.gate.unskip(was) // fasthttp's bytes pass the gate
	}
	if r.sent > 0 {
		r.out, r.sent = append(r.out[:0], r.out[r.sent:]...), 0
	}
	return last, ok
}

// flush sends the answers to earlier requests, before the next one waits. It does not wait, and reports
// whether the client took them all.
func (r *resident) flush() bool {
	if len(r.out) > 0 {
		r.sent = r.write(r.out)
	}
	return r.sent == len(r.out)
}

// skip implements unsent.
func (r *resident) skip() (n int) {
	n, r.sent = r.sent, 0
	return n
}

// yield says what follows when there is no head and no byte can be read.
func (r *resident) yield(c *Conn, got arrival) step {
	switch {
	case r.start < r.end:
		return r.replay(c)
	case got == nothing:
		return wait
	}
	return end
}

// replay gives fasthttp what was read and not answered.
func (r *resident) replay(c *Conn) step {
	c.in.replay = bytes.Clone(r.buf[r.start:r.end])
	return handOver
}

// fill reads more into the buffer.
func (r *resident) fill() arrival {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	if r.end == len(r.buf) {
		r.start, r.end = 0, copy(r.buf, r.buf[r.start:])
	}
	if !r.more && !r.look || r.end == len(r.buf) {
		return nothing
	}
	n, got := r.read(r.buf[r.end:])
	r.end += n
	return got
}

// send sends the answers, and reports whether the client took them.
func (r *resident) send(c *Conn) bool {
	if len(r.out) == 0 {
		return true
	}
	if n := r.write(r.out); n < len(r.out) {
		if _, err := c.Write(r.out[n:]); err != nil {
			return false
		}
	}
	r.out = r.out[:0]
	c.endAnswer()
	return true
}
