//go:build !linux || (!amd64 && !arm64)

package conn

import "net"

// pollable returns ln unchanged: nobody needs its descriptor here.
func pollable(ln net.Listener) (net.Listener, error) { return ln, nil }

// accept serves connections, each on its own goroutine, until the listener is closed or drained. Nothing is
// answered at the door here.
func (l *Listener) accept() error {
	return l.ln.each(func() error {
		l.conns.waitForDismissed()
		nc, err := l.ln.Accept()
		if err != nil {
			return err
		}
		if c := l.take(nc, l.options.Load()); c != nil {
			go l.serve(c)
		}
		return nil
	}, false)
}
