package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/http1"
)

// stream presents a request of HTTP/2 as a connection of HTTP/1.1 that carries nothing else. One goroutine
// reads it and one writes it, which may be the same. It implements [conn.Stream].
type stream struct {
	local, remote net.Addr
	r             *http.Request
	control       *http.ResponseController

	head    []byte
	pending []byte // read before more of the request's body
	left    int64  // unread bytes of the body, or http1.Chunked
	ended   error  // what follows the last chunk

	answer answer
}

// exchange has a request served, and reports whether it was answered to the end.
func exchange(s *conn.Session, w http.ResponseWriter, r *http.Request) bool {
	st := streams.Get().(*stream) // from the pool
	st.local, st.remote, st.r, st.control = s.LocalAddr(), s.RemoteAddr(), r, http.NewResponseController(w)
	st.answer.begin(w, st.control, r.Method == http.MethodHead)
	s.Serve(st)
	answered := st.answer.ended
	if cap(st.head) <= keptBytes && cap(st.answer.kept) <= keptBytes {
		*st = stream{head: st.head, answer: answer{kept: st.answer.kept}}
		streams.Put(st)
	}
	return answered
}

// keptBytes is how much memory a stream may keep in the pool.
const keptBytes = 8 << 10

var streams = sync.Pool{New: func() any { return new(stream) }}

// Head implements [conn.Stream].
func (s *stream) Head() (head []byte, err error) {
	head, err = appendHead(s.head[:0], s.r)
	s.head, s.pending, s.left = head, head, max(http1.Chunked, s.r.ContentLength)
	return head, err
}

// Read implements net.Conn: it reads the request.
func (s *stream) Read(p []byte) (n int, err error) {
	switch {
	case len(s.pending) > 0:
		n = copy(p, s.pending)
		s.pending = s.pending[n:]
		return n, nil
	case s.left == 0 || len(p) == 0:
		return 0, io.EOF
	case s.left != http1.Chunked:
		n, err = s.r.Body.Read(p[:min(int64(len(p)), s.left)])
		s.left -= int64(n)
		if n > 0 {
			return n, nil
		}
	case s.ended != nil:
		err = s.ended
	case len(p) < 2*chunkFrame:
		var small [2 * chunkFrame]byte
		n, err = s.readChunk(small[:])
		s.pending = append(s.pending, small[:n]...)
	default:
		n, err = s.readChunk(p)
		if n > 0 {
			return n, nil
		}
	}
	if len(s.pending) > 0 {
		return s.Read(p)
	}
	return s.endBody(p, err)
}

// endBody handles the end of the body: err is net/http's.
func (s *stream) endBody(p []byte, err error) (int, error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, os.ErrDeadlineExceeded
	case !errors.Is(err, io.EOF) || s.left > 0:
		return 0, io.ErrUnexpectedEOF
	}
	s.left = 0
	s.pending = appendTrailers(nil, s.r)
	return s.Read(p)
}

// chunkFrame is what surrounds the bytes of a chunk: a size of chunkDigits, and two CRLFs.
const (
	chunkDigits = 4
	chunkFrame  = chunkDigits + 2*len("\r\n")
	maxChunk    = 0xffff
)

// readChunk reads some of the body into p, as a chunk.
func (s *stream) readChunk(p []byte) (int, error) {
	const begin = chunkDigits + len("\r\n")
	n, err := s.r.Body.Read(p[begin:min(len(p)-len("\r\n"), begin+maxChunk)])
	if n == 0 {
		return 0, err
	}
	s.ended = err
	copy(p, fmt.Sprintf("%0*x\r\n", chunkDigits, n))
	return begin + n + copy(p[begin+n:], "\r\n"), nil
}

// Write implements net.Conn: it takes the answer.
func (s *stream) Write(p []byte) (int, error) { return s.answer.write(p) }

// Context implements conn.Stream.
func (s *stream) Context() context.Context { return s.r.Context() }

// Close implements net.Conn. A stream ends when its handler returns.
func (s *stream) Close() error { return nil }

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements net.Conn.
func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn as [conn.Stream] says. It may come while Read waits.
func (s *stream) SetReadDeadline(t time.Time) error {
	if !isOver(t) {
		return nil
	}
	return s.control.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn likewise.
func (s *stream) SetWriteDeadline(t time.Time) error {
	if !isOver(t) {
		return nil
	}
	return s.control.SetWriteDeadline(t)
}

func isOver(t time.Time) bool { return !t.IsZero() && t.Before(time.Now()) }
