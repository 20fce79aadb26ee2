package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/nowait"
)

// Stale checks, without waiting, whether the server has closed the connection or sent something unasked. If
// it has not been called, the first Ask or Write after Get does the same and fails with IOError.Stale.
func (c *Conn) Stale() bool { return c.look() != nil }

// look returns why the connection is stale, and does not check twice.
func (c *Conn) look() error {
	if c.clean {
		return nil
	}
	n, err := 0, error(nil)
	var p [1]byte
	switch {
	case c.raw != nil:
		n, err = c.peek()
	case c.under != nil: // through TLS, which may have data already, or receive a message of its own
		c.under.now = true
		n, err = c.nc.Read(p[:])
		c.under.now, c.readBy = false, time.Time{}
	default:
		n, err = readNow(c.socket, p[:])
		c.readBy = time.Time{}
	}
	switch {
	case n > 0:
		return errUnasked
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.clean = true
		return nil
	case err == nil:
		return io.EOF
	}
	return err
}

// pollable is the socket below TLS.
type pollable struct {
	net.Conn
	now     bool // reads do not wait
	closing bool // writes may take closeTime
}

// closeTime bounds the last message to a server that does not read. Package tls would wait for 5 s.
const closeTime = 100 * time.Millisecond

// Read implements net.Conn.
func (s *pollable) Read(p []byte) (int, error) {
	if s.now {
		return readNow(s.Conn, p)
	}
	return s.Conn.Read(p)
}

// SetWriteDeadline implements net.Conn.
func (s *pollable) SetWriteDeadline(t time.Time) error {
	if latest := time.Now().Add(closeTime); s.closing && t.After(latest) {
		t = latest
	}
	return s.Conn.SetWriteDeadline(t)
}

// shortWait is how long a check waits if it cannot avoid waiting.
const shortWait = time.Millisecond

// readNow reads what has arrived. If that is nothing, its error is that of a deadline. It may change the read
// deadline.
func readNow(nc net.Conn, p []byte) (int, error) {
	n, err := nowait.Read(nc, p, nil)
	if !errors.Is(err, errors.ErrUnsupported) {
		return n, err
	}
	if err := nc.SetReadDeadline(time.Now().Add(shortWait)); err != nil {
		return 0, err
	}
	return nc.Read(p)
}
