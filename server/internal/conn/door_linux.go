//go:build linux && (amd64 || arm64)

package conn

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
)

// door accepts connections. It answers at once those whose first request has arrived and is simple (head.go),
// if the answer needs no waiting, and closes them if it is the last: accept4, recvfrom, sendto, close. A
// flood of new connections consists of these. Such a connection waits for nothing, so it needs no slot in
// [Conns], no deadline, no goroutine and no poller: less than half of the CPU that it takes otherwise
// ([decision 39]). All others are kept, with what was read from them, and served as usual; answered ones a
// moment later, as most clients of a flood close theirs (greet_linux.go).
//
// There is one per core. One of them waits for connections in Go's poller, and holds the poller's lock; when
// it has accepted a few without a pause the next one takes its place, and it continues without the lock until
// none is left. So a single client wakes one door and a flood uses all.
//
// [decision 39]: docs/decisions/0039-answered-at-the-door.md
type door struct {
	l     *Listener
	raw   syscall.RawConn // of the listening socket
	busy  bool            // the last step left connections in the queue
	taken uint64          // connections
	err   error           // why the last accept failed

	buf  []byte // what was read from the connection at the door
	out  []byte // its answer
	head Head
	conn Conn
	sock socket

	resting []resting // the oldest first
}

const (
	// aloneStep is how many connections a door takes before the next one helps.
	aloneStep = 8
	// doorStep is how many it takes before it lets other goroutines run.
	doorStep = 64
	// doorRest is how long it lets them run: Go checks its poller when a thread has nothing to run, else once
	// in 10 ms.
	doorRest = 10 * time.Microsecond
)

// accept runs a door for each core until the listener is closed or drained.
func (l *Listener) accept() error {
	raw, err := l.ln.Listener.(syscall.Conn).SyscallConn() // each kind of listener has one
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			if err := newDoorOf(l, raw).run(i > 0); err != nil {
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

func newDoorOf(l *Listener, raw syscall.RawConn) *door {
	return &door{l: l, raw: raw, buf: make([]byte, l.residents.head), resting: make([]resting, 0, maxResting)}
}

// run takes connections until the listener ends. Helpers leave the last ones to the one that is not a helper.
func (d *door) run(helper bool) error {
	err := d.l.ln.each(d.step, helper)
	d.lookAtAll()
	return err
}

// step takes connections until there are none, or others must run.
func (d *door) step() error {
	d.l.conns.waitForDismissed()
	before := d.taken
	var err error
	d.err = nil
	if d.busy {
		time.Sleep(doorRest)
		err = d.raw.Control(func(listening uintptr) { d.busy = d.take(listening, doorStep) })
	} else {
		if len(d.resting) > 0 { // before it waits for others, perhaps for long
			time.Sleep(restTime)
			d.lookAtAll()
		}
		err = d.raw.Read(func(listening uintptr) (done bool) {
			d.busy = d.take(listening, aloneStep)
			return d.busy || d.err != nil || len(d.resting) > 0 || d.l.conns.busy()
		})
	}
	if err == nil && d.taken == before { // else it has not failed
		err = d.err
	}
	return err
}

// take takes up to most connections, and reports whether there may be more.
func (d *door) take(listening uintptr, most int) (more bool) {
	for n := 0; n < most; {
		fd, peer, errno := nowait.Accept(listening)
		switch errno {
		case 0:
			d.sock = socket{fd: fd, peer: peer}
			d.greet()
			d.taken++
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
