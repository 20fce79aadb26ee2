//go:build linux && (amd64 || arm64)

package conn

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
)

// door accepts connections. It answers at once those whose only request has arrived, is simple
// (head.go) and asks to close, if the answer takes no waiting: accept4, recvfrom, sendto, close.
// That is what a flood of new connections is made of. Such a connection waits for nothing, so it
// needs no place among [Conns], no deadline, no goroutine and no poller: under half of the CPU that it
// takes otherwise ([decision 39]). All others are kept, with what was read of them, and
// served as if nobody had looked.
//
// There is one for each core. One of them waits for connections in Go's poller, with the lock
// of that; when it has had a few without a pause the next one takes its place, and it goes on
// without the lock until none is left. So a single client wakes one door and a flood has all.
//
// [decision 39]: docs/decisions/0039-answered-at-the-door.md
type door struct {
	l    *Listener
	raw  syscall.RawConn // of the listening socket
	busy bool            // the last turn has left connections in the queue
	err  error           // why the last accept failed

	buf  []byte // what was read of the connection at the door
	out  []byte // its answer
	head Head
	conn Conn
	sock socket
}

const (
	// aloneTurn is how many connections a door takes before the next one helps.
	aloneTurn = 8
	// doorTurn is how many it takes before it lets other goroutines run.
	doorTurn = 64
	// doorRest is how long it lets them when others are open: Go looks for them at its poller
	// when a thread has nothing to run, else once in 10 ms.
	doorRest = 10 * time.Microsecond
)

// accept has a door for each core until the listener is closed or settled.
func (l *Listener) accept() error {
	raw, err := l.ln.Listener.(syscall.Conn).SyscallConn() // each kind of listener has one
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			d := &door{l: l, raw: raw, buf: make([]byte, l.residents.head)}
			if err := l.ln.each(d.turn, i > 0); err != nil {
				failed.CompareAndSwap(nil, &err)
				_ = l.ln.Close() // the others end too
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// turn takes connections until there are none, or others have to get a turn.
func (d *door) turn() error {
	d.err = nil
	if !d.busy {
		err := d.raw.Read(func(listening uintptr) (done bool) {
			d.busy = d.take(listening, aloneTurn)
			return d.busy || d.err != nil
		})
		if err != nil || d.err != nil {
			return firstError(err, d.err)
		}
	}
	err := d.raw.Control(func(listening uintptr) { d.busy = d.take(listening, doorTurn) })
	if d.busy {
		d.letOthersRun()
	}
	return firstError(err, d.err)
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// letOthersRun gives other goroutines a turn. Those that wait for a socket get one only when
// some thread looks at Go's poller, which it does when it has nothing else to run.
func (d *door) letOthersRun() {
	if d.l.conns.some.Load() {
		time.Sleep(doorRest)
	} else {
		runtime.Gosched()
	}
}

// take takes up to most connections, and reports whether there may be more.
func (d *door) take(listening uintptr, most int) (more bool) {
	for n := 0; n < most; {
		fd, peer, errno := nowait.Accept(listening)
		switch errno {
		case 0:
			d.sock = socket{fd: fd, peer: peer}
			d.greet()
			n++
		case syscall.EAGAIN:
			return false
		case syscall.EINTR, syscall.ECONNABORTED:
		default:
			d.err = os.NewSyscallError("accept4", errno)
			return false
		}
	}
	return true
}

// greet answers the connection at the door, or keeps it.
func (d *door) greet() {
	read := 0
	if d.mayAnswer() {
		s := rawSocket{fd: d.sock.fd}
		n, got := s.read(d.buf)
		if got == gone {
			nowait.Close(d.sock.fd)
			return
		}
		if read = n; d.answer(d.buf[:read]) {
			return
		}
	}
	d.keep(d.buf[:read])
}

// mayAnswer reports whether the first bytes of the connection are a request, and its answer is
// ours to give.
func (d *door) mayAnswer() bool {
	l, o := d.l, d.l.options.Load()
	d.conn = Conn{Conn: &d.sock, addr: d.sock.client(), conns: l.conns, from: l, options: o}
	return l.answerNow != nil && o.TLS == nil && !o.trusts(d.conn.addr) && !l.conns.held(&d.conn)
}

// answer answers the request, and reports whether the connection has ended with that.
func (d *door) answer(request []byte) (done bool) {
	n, what := d.head.read(request)
	if what != whole || n != len(request) || !d.head.close {
		return false
	}
	c := &d.conn
	c.in.gate.skip(&d.head)
	var ok bool
	if d.out, _, ok = d.l.answerNow(d.out[:0], c, &d.head); !ok {
		return false
	}
	sent := 0
	if !c.orders.reset.Load() {
		sent, _ = nowait.SendLast(d.sock.fd, d.out)
	}
	switch rest := d.out[sent:]; {
	case c.orders.reset.Load(): // and so is the socket
	case len(rest) > 0 || c.out.unread:
		d.end(bytes.Clone(rest))
		return true
	}
	nowait.Close(d.sock.fd)
	d.l.conns.atDoor.Add(1)
	return true
}

// end has the rest of an answer sent, and the connection end as the others do: its client does
// not take all at once, or is sending still.
func (d *door) end(rest []byte) {
	nc := d.sock.keep()
	c, held := d.l.place(nc)
	switch {
	case c != nil:
		c.in.served, c.out.unread = 1, d.conn.out.unread
		go func() {
			defer c.conns.remove(c)
			_, _ = c.Send(rest)
			c.finish()
		}()
	case !held:
		abort(nc)
	}
}

// keep has the connection served, from what was read of it on.
func (d *door) keep(read []byte) {
	c := d.l.take(d.sock.keep())
	if c == nil {
		return
	}
	if len(read) > 0 {
		c.in.replay = bytes.Clone(read)
	}
	go d.l.serve(c)
}
