package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"github.com/fastlimit/fastlimit/server/internal/proxyheader"
)

// opening is what a connection goes through before its first request, on its own goroutine, so that a silent
// peer does not block accepting. All of it has to be done within the time for the first head, counted from
// when it was accepted.
type opening struct {
	raw    net.Conn   // the socket
	header bool       // its peer must send a PROXY header
	tls    *tlsSocket // nil: no TLS
}

// prepare sets what a new connection has to go through, before anybody else sees it.
func (c *Conn) prepare(options *Options) {
	c.options = options
	o := opening{raw: c.Conn, header: options.trusts(c.addr)}
	if options.TLS != nil {
		o.tls = &tlsSocket{Conn: c.Conn, c: c}
		c.Conn = tls.Server(o.tls, options.TLS)
	}
	if o.header || o.tls != nil {
		c.opening = &o
	}
	c.in.stranger = options.Proxied != nil && !o.header
}

// socket is the socket of a connection, below TLS if there is any.
func (c *Conn) socket() net.Conn {
	if c.opening != nil {
		return c.opening.raw
	}
	return c.Conn
}

// open does what comes before the first request. It reports whether requests may follow; if not, the
// connection has to be closed.
func (l *Listener) open(c *Conn) bool {
	o := c.opening
	if o == nil {
		return true
	}
	if o.header {
		if err := c.readProxyHeader(); err != nil {
			c.out.closed = true
			return false
		}
	}
	if o.tls != nil && c.handshake() != nil {
		return false
	}
	c.proceed(fresh) // since it was accepted
	return true
}

// beginOpening records that the first byte of what comes before a request has arrived.
func (c *Conn) beginOpening() {
	if c.phase() == fresh {
		c.proceed(opens)
	}
}

// readProxyHeader reads the header and counts the connection for the client in it. What follows the header is
// the beginning of the first request.
func (c *Conn) readProxyHeader() error {
	buf, have, n := make([]byte, proxyBuffer), 0, 0
	for {
		var err error
		if n, err = proxyheader.Extent(buf[:have]); err != nil {
			return c.proxyFailed(err)
		}
		if n > 0 && have >= n {
			break
		}
		if n > len(buf) {
			buf = append(make([]byte, 0, n), buf[:have]...)[:n]
		}
		m, err := c.opening.raw.Read(buf[have:])
		if have += m; m > 0 {
			c.beginOpening()
			continue
		}
		if errors.Is(err, io.EOF) && have == 0 {
			return err // a balancer that checks whether the port is open
		}
		return c.proxyFailed(err)
	}
	client, err := proxyheader.Parse(buf[:n])
	if err != nil {
		return c.proxyFailed(err)
	}
	if !client.IsValid() {
		client = c.addr
	}
	c.addr, c.in.replay = client, buf[n:have]
	if !c.conns.identify(c) {
		return net.ErrClosed
	}
	return nil
}

// proxyBuffer is longer than a header without extensions.
const proxyBuffer = 256

// proxyReason says why a PROXY header was refused. The set is closed: it is a label.
type proxyReason uint8

const (
	proxyMissing proxyReason = iota
	proxyMalformed
	proxyAddress
	proxyChecksum
	proxyTimeout
	proxyClosed
	proxyUntrusted // sent by a peer that may not; it gets a 400
	proxyReasons
)

var proxyReasonNames = [proxyReasons]string{"missing", "malformed", "address", "checksum", "timeout", "closed", "untrusted"}

func proxyReasonOf(err error) proxyReason {
	switch {
	case errors.Is(err, proxyheader.ErrMissing):
		return proxyMissing
	case errors.Is(err, proxyheader.ErrAddress):
		return proxyAddress
	case errors.Is(err, proxyheader.ErrChecksum):
		return proxyChecksum
	case errors.Is(err, os.ErrDeadlineExceeded):
		return proxyTimeout
	case errors.Is(err, proxyheader.ErrMalformed), errors.Is(err, proxyheader.ErrTooLong):
		return proxyMalformed
	}
	return proxyClosed
}

// proxyFailed counts and logs why there is no header, unless the server has ended the connection. It returns
// the error.
func (c *Conn) proxyFailed(err error) error {
	if !c.orders.end() {
		c.conns.noteProxy(proxyReasonOf(err), c.addr, err)
	}
	return err
}

// noteStranger checks whether a peer that must not send a PROXY header begins with one. The header is no
// request, so it is refused like other nonsense.
func (c *Conn) noteStranger(data []byte) {
	if c.in.stranger = false; proxyheader.Is(data) {
		c.conns.noteProxy(proxyUntrusted, c.addr, errors.New("the peer is not in proxy_protocol"))
	}
}

func (c *Conns) noteProxy(why proxyReason, peer netip.Addr, err error) {
	c.proxyErrors[why].Add(1)
	if c.report.proxy.Take() {
		c.report.log.Warn("PROXY header refused", slog.String("reason", proxyReasonNames[why]),
			slog.String("peer", peer.String()), slog.String("error", err.Error()))
	}
}

// ProxyErrors returns how many PROXY headers were refused, by reason.
func (c *Conns) ProxyErrors() map[string]uint64 {
	return byName(proxyReasonNames[:], c.proxyErrors[:])
}

func (c *Conns) refusedHeaders() (n uint64) {
	for i := range c.proxyErrors {
		n += c.proxyErrors[i].Load()
	}
	return n
}
