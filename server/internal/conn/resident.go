//go:build linux && (amd64 || arm64)

package conn

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"

	"github.com/valyala/fasthttp"
)

// resident answers the simple requests of a connection. While these are all that
// comes, the connection's goroutine stays within one callback of
// [syscall.RawConn.Read]: woken by the poller it reads once, parses with fasthttp's
// parser, answers with one write, and waits again. That takes two system calls per
// request where fasthttp's loop takes three, and an idle connection holds no buffer.
//
// A request is simple if its head arrives whole and fits smallHead, passes the gate,
// has no body and no field that asks for more than an answer ([gate.plain]), and if
// [Handlers].Answer takes it. At the first other one, fasthttp gets all its bytes
// ([Conn.replay]) and keeps the connection to its end. So fasthttp alone reads what
// is odd, and both ways give the same answers (FuzzSameAnswers).
type resident struct {
	rawSocket // what in reads from
	in        *bufio.Reader
	header    fasthttp.RequestHeader
	out       []byte // answers that have not been sent
}

// maxPerTurn is the number of requests of one connection that are answered before
// other goroutines get a turn: a client that pipelines must starve nobody.
const maxPerTurn = 16

// residents is a pool because it then has about one state per core.
type residents struct{ pool sync.Pool }

func newResidents(head int) *residents {
	return &residents{sync.Pool{New: func() any {
		r := &resident{}
		r.in = bufio.NewReaderSize(&r.rawSocket, head)
		return r
	}}}
}

// step is what follows a turn of a connection.
type step uint8

const (
	wait     step = iota // for more bytes
	handOver             // to fasthttp
	end
)

// reside answers simple requests. It reports whether the connection is done; if
// not, fasthttp has to go on with it.
func (l *Listener) reside(c *Conn) (done bool) {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok || l.answer == nil {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var next step
	err = raw.Read(func(fd uintptr) bool {
		r := l.residents.pool.Get().(*resident)
		r.open(fd)
		next = r.turn(l, c)
		r.out = r.out[:0]
		r.in.Reset(&r.rawSocket)
		l.residents.pool.Put(r)
		return next != wait
	})
	if err != nil && c.served > 0 {
		// A deadline, which may have been meant for a request that was answered since
		// then: the connection ends without a word (TestOverdueAfterAnAnswer).
		c.leave.Store(true)
	}
	return next == end
}

// turn answers all simple requests that have arrived.
func (r *resident) turn(l *Listener, c *Conn) step {
	for served := 0; ; {
		arrived, _ := r.in.Peek(r.in.Buffered())
		n := headLength(arrived)
		if n == 0 {
			if !r.send(c) {
				return end
			}
			if err := r.fill(); err != nil {
				return r.yield(c, err)
			}
			continue
		}
		last, ok := r.request(l, c, arrived[:n])
		if served++; ok && !last && served%maxPerTurn > 0 {
			continue
		}
		switch sent := r.send(c); {
		case !sent, last:
			return end
		case !ok:
			c.replay = slices.Clone(arrived)
			return handOver
		}
		runtime.Gosched()
	}
}

// yield says what follows when no head is there and no byte can be read.
func (r *resident) yield(c *Conn, err error) step {
	if partial, _ := r.in.Peek(r.in.Buffered()); len(partial) > 0 {
		c.replay = slices.Clone(partial)
		return handOver
	}
	if errors.Is(err, errWait) {
		return wait
	}
	return end // the client has closed or reset it
}

// headLength returns the length of the head at the start of b, 0 if it is not whole.
func headLength(b []byte) int {
	if n := bytes.Index(b, []byte("\r\n\r\n")); n >= 0 {
		return n + len("\r\n\r\n")
	}
	return 0
}

// fill reads more into the buffer, which may be full.
func (r *resident) fill() error {
	if !r.more {
		return errWait
	}
	_, err := r.in.Peek(r.in.Buffered() + 1)
	return err
}

// request answers the request with the head, which is at the start of the buffer. If
// not ok nothing has happened; last ends the connection.
func (r *resident) request(l *Listener, c *Conn, head []byte) (last, ok bool) {
	before, left := c.gate, r.in.Buffered()-len(head)
	if c.gate.plain(head) && r.header.Read(r.in) == nil && r.in.Buffered() == left {
		if r.out, last, ok = l.answer(r.out, c, &r.header); ok {
			return last, true
		}
	}
	c.gate = before // fasthttp's bytes pass it again
	return false, false
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
	p := idle
	if c.denied {
		c.denied, p = false, idleDenied
	}
	c.enter(p)
	return true
}
