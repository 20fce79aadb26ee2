//go:build !windows

package conn

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// pairOf is a TCP connection: ours, and the client's end.
func pairOf(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client := dialFrom(t, "127.0.0.1", ln.Addr().String())
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); client.Close() })
	c := newConns(10, 10)
	cn := c.wrap(nc)
	c.admit(cn)
	return cn, client
}

// A dismissed connection takes what has arrived by then: such bytes are read, and the connection stays open
// for the answer. If there are none the client is told at once, and nothing more is read.
func TestDismissedConnectionReadsWhatHasArrived(t *testing.T) {
	t.Parallel()
	for _, p := range []phase{fresh, idle, idleDenied} {
		for _, arrived := range []bool{true, false} {
			cn, client := pairOf(t)
			cn.in.unborn = p == fresh
			cn.enter(p)
			if arrived {
				io.WriteString(client, "GET / H")
				time.Sleep(time.Millisecond) // it is on its way
				buf := make([]byte, 1)
				eventually(t, func() bool { return peek(cn.Conn, buf) == 1 })
			}
			cn.dismiss()
			buf := make([]byte, smallHead)
			n, err := cn.Read(buf)
			if arrived {
				if err != nil || string(buf[:n]) != "GET / H" || cn.out.closed {
					t.Fatalf("phase %d: read %q, %v", p, buf[:n], err)
				}
				cn.enter(reading)
				io.WriteString(client, "TTP/1.1")
				if n, err = cn.Read(buf); err != nil || string(buf[:n]) != "TTP/1.1" {
					t.Errorf("phase %d: the deadline is still set: %q, %v", p, buf[:n], err)
				}
				continue
			}
			if n != 0 || !errors.Is(err, io.EOF) || !cn.out.closed {
				t.Errorf("phase %d: read %q, %v", p, buf[:n], err)
			}
			if !hasEnded(client) {
				t.Errorf("phase %d: the client is not told", p)
			}
		}
	}
}

// A connection dismissed in the middle of a request finishes it.
func TestDismissedInTheMiddleOfARequest(t *testing.T) {
	t.Parallel()
	cn, client := pairOf(t)
	cn.in.unborn = false
	cn.enter(reading)
	cn.dismiss()
	go io.WriteString(client, "rest")
	buf := make([]byte, smallHead)
	if n, err := io.ReadFull(cn, buf[:4]); err != nil || string(buf[:n]) != "rest" {
		t.Errorf("%q %v", buf[:n], err)
	}
}

// What is in the queue of the listener when it stops is served, however late it
// is taken from there; no connection begins that would be reset with it.
func TestQueueIsServedBeforeTheListenerCloses(t *testing.T) {
	t.Parallel()
	ln, err := Listen("listen", "127.0.0.1:0", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	l := &retryListener{Listener: ln, failed: func(error) {}}
	defer l.Close()
	const queued = 50
	for range queued {
		defer dialFrom(t, "127.0.0.1", ln.Addr().String()).Close()
	}
	l.drain()
	time.Sleep(drainStep) // the deadline that wakes Accept is over
	d := net.Dialer{Timeout: 300 * time.Millisecond}
	if c, err := d.DialContext(t.Context(), "tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection begins while the listener stops")
	}
	accepted := 0
	if err := l.each(func() error {
		c, err := l.Accept()
		if err == nil {
			accepted++
			c.Close()
		}
		return err
	}, false); err != nil || accepted != queued {
		t.Errorf("%d of %d: %v", accepted, queued, err)
	}
}
