package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// pairOf is a TCP connection: ours, and the client's end.
func pairOf(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client := dial(t, ln.Addr().String())
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

// A connection that is dismissed takes what has arrived by then: such bytes are
// read, and the connection stays open for the answer. With none the client is
// told at once, and nothing is read any more.
func TestDismissedConnectionReadsWhatHasArrived(t *testing.T) {
	t.Parallel()
	for _, p := range []phase{fresh, idle, idleDenied} {
		for _, arrived := range []bool{true, false} {
			cn, client := pairOf(t)
			cn.unborn = p == fresh
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
				if err != nil || string(buf[:n]) != "GET / H" || cn.closed {
					t.Fatalf("phase %d: read %q, %v", p, buf[:n], err)
				}
				cn.enter(reading)
				io.WriteString(client, "TTP/1.1")
				if n, err = cn.Read(buf); err != nil || string(buf[:n]) != "TTP/1.1" {
					t.Errorf("phase %d: the deadline is still set: %q, %v", p, buf[:n], err)
				}
				continue
			}
			if n != 0 || !errors.Is(err, io.EOF) || !cn.closed {
				t.Errorf("phase %d: read %q, %v", p, buf[:n], err)
			}
			if !hasEnded(client) {
				t.Errorf("phase %d: the client is not told", p)
			}
		}
	}
}

// Whoever is dismissed in the middle of a request gets to its end.
func TestDismissedInTheMiddleOfARequest(t *testing.T) {
	t.Parallel()
	cn, client := pairOf(t)
	cn.unborn = false
	cn.enter(reading)
	cn.dismiss()
	go io.WriteString(client, "rest")
	buf := make([]byte, smallHead)
	if n, err := io.ReadFull(cn, buf[:4]); err != nil || string(buf[:n]) != "rest" {
		t.Errorf("%q %v", buf[:n], err)
	}
}

// The time limit of an idle connection ends it in the same way: the client is
// told by the end of the connection, and nothing is counted as a bad request.
func TestIdleLimitIsNoBadRequest(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) { c.Connections.IdleTimeout = 20 * time.Millisecond })
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", headOf(9000, "")} { // small and larger reader
		c := dial(t, s.addr)
		defer c.Close()
		io.WriteString(c, first)
		br := bufio.NewReader(c)
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		if rest, err := io.ReadAll(br); len(rest) > 0 || err != nil {
			t.Errorf("an idle connection is told %q, %v", rest, err)
		}
	}
	for _, f := range s.faults.all() {
		if f.count.Load() != 0 {
			t.Errorf("%s is counted", f.reason)
		}
	}
}

// What is in the queue of the listener when it stops is served, however late it
// is taken from there; no connection begins that would be reset with it.
func TestQueueIsServedBeforeTheListenerCloses(t *testing.T) {
	t.Parallel()
	ln, err := listen("listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &retryListener{Listener: ln, failed: func(error) {}}
	defer l.Close()
	const queued = 50
	for range queued {
		defer dial(t, ln.Addr().String()).Close()
	}
	l.settle()
	time.Sleep(settleStep) // the deadline that wakes Accept is over
	d := net.Dialer{Timeout: 300 * time.Millisecond}
	if c, err := d.DialContext(t.Context(), "tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection begins while the listener stops")
	}
	for i := range queued {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("%d of %d: %v", i, queued, err)
		}
		c.Close()
	}
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Error("one too many")
	}
}

// In a drain everybody who sends gets an answer, the last one of the
// connection, and who does not send is told; nobody waits for the time limit.
func TestDrainAnswersEverybody(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1 << 30
	s := start(t, set, func(c *Config) { c.Drain.Timeout = 15 * time.Second })
	idleOnes, freshOnes := make([]net.Conn, 20), make([]net.Conn, 20)
	for i := range idleOnes {
		idleOnes[i], freshOnes[i] = dial(t, s.addr), dial(t, s.addr)
		if ask(idleOnes[i]) != 200 {
			t.Fatal("before the drain")
		}
	}
	eventually(t, func() bool { return s.conns.count() == 40 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	eventually(t, func() bool { return s.state.Load() == stateDraining })
	for i := range 10 { // no delay, and yet: an idle connection is not cut at once
		for _, c := range []net.Conn{idleOnes[i], freshOnes[i]} {
			if got := ask(c); got != 200 {
				t.Errorf("a request in the drain got %d", got)
			}
			if !hasEnded(c) {
				t.Error("its connection goes on")
			}
		}
	}
	for i := 10; i < 20; i++ {
		if !hasEnded(idleOnes[i]) || !hasEnded(freshOnes[i]) {
			t.Error("a silent connection is not ended")
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := s.reason(t, "timeout") + s.reason(t, "truncated"); n != 0 {
		t.Errorf("%d bad requests counted", n)
	}
}
