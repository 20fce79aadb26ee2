package conn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listen binds a TCP address, or a path ("unix:/run/http.sock") with a mode. setting is
// what the operator calls it.
//
// One plain listener per address: two with SO_REUSEPORT gained nothing on 2
// cores with wrk on the same machine. With keep-alive 9.2 µs of CPU a request
// either way; with a connection per request 25 and 26 µs plain, 27 and 29 µs
// with SO_REUSEPORT, 24 to 27 µs where TCP_DEFER_ACCEPT was added (medians of
// two runs of 8 pairs; they vary by 15 %). The kernel would also spread
// connections by hash, not by who is idle.
func Listen(setting, address string, mode fs.FileMode) (net.Listener, error) {
	if path, ok := UnixPath(address); ok {
		ln, fix, err := listenUnix(path, mode)
		if err != nil {
			return nil, fmt.Errorf("fastlimit/server: %s %s: %w; %s", setting, address, err, fix)
		}
		return ln, nil
	}
	// Multipath TCP, which Go would offer, has a listening socket of its own
	// kind, on which refuseNew has no effect.
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	inherit(&config)
	ln, err := config.Listen(context.Background(), network(address), address)
	if err == nil {
		return ln, nil
	}
	fix := "write host:port, for example 127.0.0.1:8080"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		fix = "another process uses it: stop that process, or choose another port (0 picks a free one)"
	case errors.Is(err, syscall.EACCES):
		fix = "ports below 1024 need CAP_NET_BIND_SERVICE: grant it, or choose a port above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		fix = "no interface of this machine has this address: use one that exists, [::] for all, or 0.0.0.0 for all of IPv4"
	}
	return nil, fmt.Errorf("fastlimit/server: %s %s: %w; %s", setting, address, err, fix)
}

// network keeps 0.0.0.0 to IPv4, as it reads: the net package would make it all
// addresses, as it does with [::] and an empty host.
func network(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil && host == "0.0.0.0" {
		return "tcp4"
	}
	return "tcp"
}

// retryListener retries temporary failures of Accept: a flood of connections can
// use up the file descriptors. Accept is called by one goroutine.
type retryListener struct {
	net.Listener
	failed func(error)

	settling atomic.Bool // see settle
	once     sync.Once
	err      error
}

// Accept implements net.Listener.
func (l *retryListener) Accept() (net.Conn, error) {
	const least, most = 5 * time.Millisecond, time.Second
	for wait, silent := least, 0; ; {
		if l.settling.Load() {
			l.wake(time.Now().Add(settleStep))
		}
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Once may be a deadline that was over before the queue was looked at.
			if silent++; silent >= settleSteps {
				return nil, err
			}
			continue
		case !passing(err):
			return nil, err
		}
		l.failed(err)
		time.Sleep(wait)
		wait = min(2*wait, most)
	}
}

const (
	settleStep  = 20 * time.Millisecond
	settleSteps = 3
)

// settle makes Accept return what is in its queue and then fail. Connections that
// are still queued when the listener closes would be reset, although their clients
// may have sent a request. Where the system allows it no new connections begin from
// here on; their clients' SYNs are sent again.
func (l *retryListener) settle() {
	refuse := func() error { return refuseNew(l.Listener) }
	if own, ok := l.Listener.(interface{ refuseNew() error }); ok {
		refuse = own.refuseNew
	}
	_ = refuse() // else a client may come between the last Accept and Close
	l.settling.Store(true)
	l.wake(time.Now())
}

func (l *retryListener) wake(at time.Time) {
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(at) // of a listener that is open
	}
}

// Close implements net.Listener. It may be called again.
func (l *retryListener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}

func passing(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, // of this machine, for now
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, // of this connection
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
