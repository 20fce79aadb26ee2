package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection to a server, lent by [Pool.Get] until [Pool.Put] or [Pool.Discard].
// One goroutine may read while another writes.
//
// Deadlines are set only when less than the timeout is left of them, and then to 9/8 of it. If a socket is
// read or written directly they are checked only when it has to wait. So most requests touch no timer.
type Conn struct {
	pool   *Pool
	server *server
	nc     net.Conn        // what requests use: TLS or the socket
	socket net.Conn        // below TLS
	under  *pollable       // between the two; nil without TLS
	raw    syscall.RawConn // of the socket; nil if it is not used directly

	interrupted atomic.Bool
	wrote       atomic.Int64 // when Write last made progress, in ns since Pool.start; 0: never

	// Used by the reader.
	served   bool // it has served a request before
	answered bool // a byte of an answer has been read
	heading  bool // the time until the head of the answer is running
	readBy   time.Time
	asking   asking
	reading  reading

	// Used by the writer.
	clean   bool // it need not be checked again before the first write
	writeBy time.Time
	writing writing

	// Guarded by Pool.mu.
	lent         bool
	owner        *client // owner of the turn it was lent with
	probe        bool    // lent while the server was ejected
	era          uint    // of the server, when it was lent
	since        int     // of Pool.epoch, when it became idle
	newer, older *Conn
}

// returnLocked takes the connection back.
func (c *Conn) returnLocked() (s *server, owner *client) {
	if !c.lent {
		panic("BUG: upstream: a connection was returned twice")
	}
	c.lent, c.served, c.clean = false, true, false
	c.wrote.Store(0)
	c.server.endLocked(c)
	owner, c.owner = c.owner, nil
	return c.server, owner
}

// Reused reports whether it has served a request before.
func (c *Conn) Reused() bool { return c.served }

// Server is the name of the server.
func (c *Conn) Server() string { return c.server.Name }

// Answered records how long the server took to begin its answer.
func (c *Conn) Answered(took time.Duration) { c.server.firstByte.Observe(took) }

// NetConn is the connection to the server: TLS, or a socket. After using it, the caller must not [Pool.Put]
// the connection.
func (c *Conn) NetConn() net.Conn { return c.nc }

// Healthy records that the head of an answer has come, as Put and Discard do. It is for long answers and
// upgraded connections, so that the server is taken back before they end.
func (c *Conn) Healthy() {
	c.pool.mu.Lock()
	s := c.server
	back := s.succeedLocked(c.pool, c)
	if c.probe {
		c.probe = false
		s.probes--
	}
	c.pool.mu.Unlock()
	if back {
		c.pool.logBack(s)
	}
}

// Interrupt ends what is being done on the connection, with ErrInterrupted. Any goroutine may call it, but
// not after the connection was returned: it may then be somebody else's.
func (c *Conn) Interrupt() {
	c.interrupted.Store(true)
	c.socket.Close()
}

// close closes the connection, with TLS after a message to the server.
func (c *Conn) close() {
	if c.under != nil {
		c.under.closing = true
	}
	c.nc.Close()
}

// Write writes all of p. It fails if that makes no progress for Config.WriteTimeout. There may still be an
// answer: a server that refuses a body may answer and close. Its error is an *[IOError].
func (c *Conn) Write(p []byte) (n int, err error) {
	if !c.clean {
		if err := c.look(); err != nil {
			return 0, c.stale(err)
		}
		c.clean = true
	}
	if c.raw != nil {
		n, err = c.writeRaw(p)
	} else {
		n, err = c.writeSlowly(p)
	}
	c.wrote.Store(int64(time.Since(c.pool.start)))
	if err != nil {
		return n, c.failed(err)
	}
	return n, nil
}

// maxPiece is how much is written under one deadline if progress within a write cannot be seen. It is a TLS
// record.
const maxPiece = 16 << 10

func (c *Conn) writeSlowly(p []byte) (n int, err error) {
	for n < len(p) {
		if err := c.extendWrite(); err != nil {
			return n, err
		}
		m, err := c.nc.Write(p[n:min(len(p), n+maxPiece)])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Ask writes a whole request and reads the first bytes of the answer, n > 0 of them or an error, within
// Config.ResponseTimeout. Neither slice may be empty. It first checks whether the connection is stale, so
// that nothing unasked is taken for an answer. Its error is an *[IOError].
func (c *Conn) Ask(request, into []byte) (n int, err error) {
	if c.raw != nil {
		return c.askRaw(request, into)
	}
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	return c.AwaitHead(into)
}

// AwaitHead reads. All calls together may take Config.ResponseTimeout, from the first after Ask, Get or Read,
// or from the last Write if that is later. Its error is an *[IOError], also at the end of the stream.
func (c *Conn) AwaitHead(p []byte) (int, error) {
	timeout := c.pool.config.ResponseTimeout
	if !c.heading {
		if err := c.extendRead(timeout); err != nil {
			return 0, c.failed(err)
		}
		c.heading = true
	}
	n, err := c.read(p, timeout)
	if err != nil {
		return 0, c.failed(err)
	}
	return n, nil
}

// Read implements [io.Reader]. The server may be silent for Config.IdleTimeout, and longer while Write makes
// progress. Its error is io.EOF or an *[IOError].
func (c *Conn) Read(p []byte) (int, error) {
	c.heading = false
	n, err := c.read(p, c.pool.config.IdleTimeout)
	if err != nil && err != io.EOF { //nolint:errorlint // neither a socket nor TLS wraps it
		return n, c.failed(err)
	}
	return n, err
}

// read reads. It continues after the timeout if a write has made progress within it.
func (c *Conn) read(p []byte, timeout time.Duration) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if c.raw != nil {
			n, err = c.readRaw(p, timeout)
		} else if err = c.extendRead(timeout); err == nil {
			n, err = c.nc.Read(p)
		}
		if n > 0 {
			c.answered = true
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.writesOn(timeout) {
			return 0, err
		}
	}
}

// writesOn gives a read more time if there was a write within its timeout.
func (c *Conn) writesOn(timeout time.Duration) bool {
	wrote := c.wrote.Load()
	if wrote == 0 || c.interrupted.Load() {
		return false
	}
	until := c.pool.start.Add(time.Duration(wrote) + timeout)
	if !until.After(c.readBy) {
		return false
	}
	c.readBy = until
	return c.nc.SetReadDeadline(until) == nil
}

// extendRead makes sure that a read may take the timeout, and not much longer. Within the time of a head the
// deadline stays.
func (c *Conn) extendRead(timeout time.Duration) error {
	if c.heading || enough(c.readBy, timeout) {
		return nil
	}
	c.readBy = time.Now().Add(timeout + timeout/8)
	return c.nc.SetReadDeadline(c.readBy)
}

func (c *Conn) extendWrite() error {
	timeout := c.pool.config.WriteTimeout
	if enough(c.writeBy, timeout) {
		return nil
	}
	c.writeBy = time.Now().Add(timeout + timeout/8)
	return c.nc.SetWriteDeadline(c.writeBy)
}

// enough reports whether a deadline is neither too early for a timeout nor too late.
func enough(deadline time.Time, timeout time.Duration) bool {
	left := time.Until(deadline)
	return left >= timeout && left <= timeout+timeout/8
}

// failed is an error within a request.
func (c *Conn) failed(err error) error {
	if c.interrupted.Load() {
		err = ErrInterrupted
	}
	return &IOError{Server: c.server.Name, Answered: c.answered, Timeout: errors.Is(err, os.ErrDeadlineExceeded), Err: err}
}

// stale is the error of a connection that was stale before it was written to. A new one is not stale: its
// server fails.
func (c *Conn) stale(err error) error {
	if c.interrupted.Load() || !c.served {
		return c.failed(err)
	}
	return &IOError{Server: c.server.Name, Stale: true, Err: err}
}
