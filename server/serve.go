package server

import (
	"errors"
	"math"
	"net"
	"os"
	"time"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/valyala/fasthttp"
)

// newHTTP is a fasthttp server with a read buffer of the given size, which is
// the longest head that it takes.
func (t *traffic) newHTTP(head int) *fasthttp.Server {
	return &fasthttp.Server{
		Handler:         t.handle,
		ErrorHandler:    t.parseError,
		ExpectHandler:   t.expect,
		ConnState:       t.conns.note,
		Logger:          parserLogger{t.Server},
		ReadBufferSize:  head,
		WriteBufferSize: writeBuffer,
		Concurrency:     math.MaxInt32, // conns keeps the bound

		// A body is read by the handler, which drops it. fasthttp insists on a
		// byte of it beforehand; 0 would mean its default of 4 MiB.
		StreamRequestBody:  true,
		MaxRequestBodySize: 1,

		// The Date header stays: an origin server with a clock should send one
		// (RFC 9110 §6.6.1). fasthttp formats it once a second; it costs a
		// copy of 37 bytes.
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,

		SecureErrorLogMessage:        true, // no client bytes in the log
		DisablePreParseMultipartForm: true, // no temporary files for a body nobody reads
	}
}

// writeBuffer holds a denial with all its fields.
const writeBuffer = 2 << 10

// accept takes connections until the listener is closed.
func (t *traffic) accept() error {
	for {
		nc, err := t.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
		t.take(nc)
	}
}

// take serves a connection, or refuses it.
func (t *traffic) take(nc net.Conn) {
	for range 100 {
		if !t.conns.busy() {
			break
		}
		time.Sleep(time.Millisecond) // for the goroutines of the dismissed
	}
	c := t.conns.wrap(nc)
	if !t.conns.admit(c) {
		_ = nc.SetWriteDeadline(time.Now().Add(time.Second)) // a new socket takes it at once
		_, _ = nc.Write(fullAnswer)
		nc.Close()
		return
	}
	go t.serve(c)
}

var fullAnswer = func() []byte {
	var r fasthttp.Response
	r.SetStatusCode(fasthttp.StatusServiceUnavailable)
	r.Header.SetContentType(denial.ProblemMediaType)
	r.Header.Set("Retry-After", "1")
	r.SetConnectionClose()
	r.SetBody(denial.Problem(fasthttp.StatusServiceUnavailable, "All connections are in use."))
	return []byte(r.String())
}()

// serve serves a connection to its end, with the small reader but for heads that
// it refuses.
func (t *traffic) serve(c *conn) {
	defer t.conns.remove(c)
	for {
		c.unborn = true
		err := t.http.ServeConn(c)
		if !c.mute {
			t.report(c, err)
			break
		}
		c.beginLarge()
		t.conns.admitLarge(c)
		err = t.large.ServeConn(c)
		t.conns.leaveLarge(c)
		if !c.endLarge() {
			t.report(c, err)
			break
		}
	}
	c.finish()
}

// report logs why fasthttp gave a connection up, unless it says so in an answer
// or the client went away.
func (t *traffic) report(c *conn, err error) {
	var netErr net.Error
	var small *fasthttp.ErrSmallBuffer
	switch {
	case err == nil, errors.As(err, &netErr), errors.As(err, &small), t.faults.of(err) == &t.faults.truncated:
		return
	}
	t.http.Logger.Printf("error when serving connection %q<->%q: %v", c.LocalAddr(), c.RemoteAddr(), err)
}
