package proxy

import (
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/http1"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// upload sends the rest of a body to the upstream, whose answer may come before the end of the body. It has
// its own goroutine, which owns the reading side of the client and the writing side of the upstream; the
// other fields belong to the exchange again once it has ended ([upload.stop]).
type upload struct {
	c     conn.Relay
	guard *guard
	up    *upstream.Conn
	body  http1.Body

	chunked    bool
	buf        *[uploadBuffer]byte
	finishTime time.Duration
	start, end int
	out        []byte // a chunk

	complete atomic.Bool // the body has been read to its end
	stopped  atomic.Bool // the client is no longer read, which is not its fault
	sent     bool        // and written
	err      error       // the client's
	done     chan struct{}
	started  bool
	ended    bool // stop has seen it
}

// begin starts sending to an upstream that has what came before.
func (u *upload) begin(up *upstream.Conn) {
	u.up, u.done, u.started = up, make(chan struct{}), true
	go u.run()
}

// stop ends the upload, immediately if the client is still sending. The upstream's connection cannot be
// reused unless sent is then true.
func (u *upload) stop() {
	if !u.started || u.ended {
		return
	}
	select {
	case <-u.done:
	default:
		if !u.complete.Load() {
			u.stopped.Store(true)
			u.c.StopReceiving()
		}
		u.up.Interrupt()
		<-u.done
	}
	u.ended = true
}

// finishTime is how long writing the end of a complete body may take when the answer has ended. Usually it
// has been written, and the goroutine only has to notice.
const finishTime = 10 * time.Millisecond

// finish is stop after a whole answer.
func (u *upload) finish() {
	if u.complete.Load() && u.started {
		late := time.NewTimer(u.finishTime)
		defer late.Stop()
		select {
		case <-u.done:
		case <-late.C:
		}
	}
	u.stop()
}

func (u *upload) run() {
	defer close(u.done)
	for {
		if !u.write() || u.complete.Load() {
			return
		}
		if err := u.read(); err != nil {
			if !u.stopped.Load() {
				u.err = err
			}
			u.up.Interrupt() // what it got is not a complete request
			return
		}
	}
}

// write sends what was read.
func (u *upload) write() bool {
	u.out = u.out[:0]
	for !u.body.Done() {
		p := u.buf[u.start:u.end]
		skip, n, err := u.body.Next(p)
		if err != nil {
			u.err = err
			u.up.Interrupt()
			return false
		}
		if skip+n == 0 {
			break
		}
		u.start += skip + n
		data := p[skip : skip+n]
		if n > 0 && u.chunked {
			u.out = appendChunk(u.out, data)
		} else if n > 0 {
			u.complete.Store(u.body.Done())
			if !u.pass(data) {
				return false
			}
		}
	}
	if u.body.Done() {
		if u.chunked {
			u.out = appendLastChunk(u.out, u.guard.appendTrailers(nil, u.body.Trailers()))
		}
		u.complete.Store(true)
	}
	u.sent = u.pass(u.out) && u.complete.Load()
	return u.sent || !u.complete.Load()
}

// pass writes to the upstream. If that fails the answer may still say why.
func (u *upload) pass(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	u.c.Received()
	_, err := u.up.Write(p)
	return err == nil
}

// read reads more from the client.
func (u *upload) read() error {
	u.end = copy(u.buf[:], u.buf[u.start:u.end])
	u.start = 0
	u.c.Receiving()
	n, err := u.c.Fill(u.buf[u.end:])
	u.end += n
	if n > 0 {
		return nil
	}
	return err
}
