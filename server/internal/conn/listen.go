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

	"github.com/fastlimit/fastlimit/internal/systemd"
	"github.com/fastlimit/fastlimit/internal/unixsocket"
)

// Listen binds a TCP address, or a path ("unix:/run/http.sock") with a mode, or uses a socket that the
// service manager has bound ("systemd:http"). setting is the operator's name for it. With reusePort another
// process of this user may have the port too, and so may the next one.
//
// One listener per address and process: with more the kernel would spread connections by hash, not to idle
// ones, and reset the queue of one that closes.
func Listen(setting, address string, mode fs.FileMode, reusePort bool) (net.Listener, error) {
	if path, ok := unixsocket.Path(address); ok {
		ln, fix, err := unixsocket.Listen(path, mode)
		if err != nil {
			return nil, fmt.Errorf("fastlimit/server: %s %s: %w; %s", setting, address, err, fix)
		}
		return ln, nil
	}
	if name, ok := systemd.Name(address); ok {
		ln, err := systemd.Listen(name)
		if err != nil {
			return nil, fmt.Errorf("fastlimit/server: %s %s: %w", setting, address, err)
		}
		return ln, inheritable(ln)
	}
	// Multipath TCP, which Go would offer, has a different kind of listening socket, on which refuseNew has
	// no effect.
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	config.KeepAlive, config.Control = -1, inheritance
	if reusePort {
		config.Control = shared
	}
	ln, err := config.Listen(context.Background(), network(address), address)
	if err == nil {
		if reusePort {
			preferNewest(ln)
		}
		return ln, nil
	}
	fix := "write host:port, for example 127.0.0.1:8080"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		fix = "another process uses it: stop that process, or choose another port (0 picks a free one)"
	case errors.Is(err, syscall.EACCES):
		fix = "ports below 1024 need CAP_NET_BIND_SERVICE: write AmbientCapabilities=CAP_NET_BIND_SERVICE in its unit, run setcap cap_net_bind_service+ep on its binary, or choose a port above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		fix = "no interface of this machine has this address: use one that exists, [::] for all, or 0.0.0.0 for all of IPv4"
	}
	return nil, fmt.Errorf("fastlimit/server: %s %s: %w; %s", setting, address, err, fix)
}

// network keeps 0.0.0.0 to IPv4, as it reads: the net package would make it all addresses, as it does with
// [::] and an empty host.
func network(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil && host == "0.0.0.0" {
		return "tcp4"
	}
	return "tcp"
}

// retryListener retries temporary failures of accepting: a flood of connections can use up the file
// descriptors.
type retryListener struct {
	net.Listener
	failed func(error)
	shared bool // other processes have the socket too, and serve its queue

	draining, closed atomic.Bool // see drain, Close
	once             sync.Once
	err              error
}

// each calls accept repeatedly, until the listener is closed or drained, or a permanent error. Several
// goroutines may call it; all but one are helpers, which leave draining to that one.
func (l *retryListener) each(accept func() error, helper bool) error {
	const least, most = 5 * time.Millisecond, time.Second
	for wait, silent := least, 0; ; {
		if l.draining.Load() {
			if helper {
				return nil
			}
			l.wake(time.Now().Add(drainStep))
		}
		err := accept()
		switch {
		case err == nil:
			wait, silent = least, 0
			continue
		case l.closed.Load():
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Once may be a deadline that passed before the queue was read.
			if silent++; silent >= drainSteps {
				return nil
			}
			continue
		case !passing(err):
			return err
		}
		l.failed(err)
		time.Sleep(wait)
		wait = min(2*wait, most)
	}
}

const (
	drainStep  = 20 * time.Millisecond
	drainSteps = 3
)

// drain makes each end when the queue is empty. Connections still queued when the listener closes would be
// reset, although their clients may have sent a request. Where the system allows it no new connections begin
// from here on; their clients send SYN again. A shared listener leaves its queue to the others.
func (l *retryListener) drain() {
	if l.shared {
		_ = l.Close()
		return
	}
	l.refuse() // else a client may come between the last accept and Close
	l.draining.Store(true)
	l.wake(time.Now())
}

func (l *retryListener) refuse() {
	if l.shared {
		return
	}
	if own, ok := l.Listener.(interface{ RefuseNew() error }); ok {
		_ = own.RefuseNew()
	} else {
		_ = refuseNew(l.Listener)
	}
}

func (l *retryListener) wake(at time.Time) {
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(at) // of a listener that is open
	}
}

// Close implements net.Listener. It may be called again.
func (l *retryListener) Close() error {
	l.once.Do(func() {
		l.closed.Store(true)
		l.err = l.Listener.Close()
	})
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
