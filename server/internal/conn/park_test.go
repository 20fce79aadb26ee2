//go:build linux && (amd64 || arm64)

package conn

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// pass has so many ticks pass.
func (w *ways) pass(n int) {
	for range n {
		w.sweep()
		w.lookAtQuiet()
	}
}

// ticks is how many pass until quiet connections park.
const ticks = 4

// told returns how many are ordered to park.
func (w *ways) told() (n int) {
	w.each(func(c *Conn) {
		if c.parking.orderedIn != 0 {
			n++
		}
	})
	return n
}

// parkedNow is how many connections are parked.
func (w *ways) parkedNow() (n int) {
	w.each(func(c *Conn) {
		if c.parking.state.Load() == parked {
			n++
		}
	})
	return n
}

// parkAll has n clients ask once, and their connections parked.
func (w *ways) parkAll(t *testing.T, n int) (all []net.Conn) {
	t.Helper()
	for range n {
		nc := dialFrom(t, "127.0.0.1", w.addr)
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		if ask(nc) != 200 {
			t.Fatal("no answer")
		}
		all = append(all, nc)
	}
	eventually(t, func() bool { return w.Open() == n && w.allWait() })
	w.pass(ticks - 1)
	if got := w.told(); got != 0 {
		t.Fatalf("%d are to park %d ticks after their requests", got, ticks-1)
	}
	w.pass(1)
	eventually(t, func() bool { return w.parkedNow() == n })
	return all
}

// A parked connection answers as any other, and whatever ends others ends it.
func TestParked(t *testing.T) {
	t.Parallel()
	const n = 20
	answers := func(want string, more ...string) func(*testing.T, *ways, net.Conn) {
		return func(t *testing.T, w *ways, nc net.Conn) {
			for i, piece := range append(more, "") {
				if piece == "" {
					_ = nc.(*net.TCPConn).CloseWrite()
				} else if i > 0 {
					eventually(t, func() bool { return w.parkedNow() < n })
				}
				io.WriteString(nc, piece)
			}
			if b, err := io.ReadAll(nc); err != nil || strings.Count(string(b), " 200 ") != strings.Count(want, "200") || strings.Count(string(b), " 400 ") != strings.Count(want, "400") {
				t.Errorf("%q, %v: want %s", b, err, want)
			}
		}
	}
	ends := answers("")
	reset := func(t *testing.T, _ *ways, nc net.Conn) {
		if b, err := io.ReadAll(nc); len(b) > 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q, %v: want a reset", b, err)
		}
	}
	ended := func(t *testing.T, _ *ways, nc net.Conn) {
		if b, err := io.ReadAll(nc); len(b) > 0 || err != nil {
			t.Errorf("%q, %v: want the end", b, err)
		}
	}
	for name, c := range map[string]struct {
		first func(*ways) // done to all, once
		then  func(*testing.T, *ways, net.Conn)
	}{
		"one more request":  {nil, answers("200", simple)},
		"many":              {nil, answers(strings.Repeat("200 ", 50), strings.Repeat(simple, 50))},
		"for fasthttp":      {nil, answers("200 200", "GET /odd HTTP/1.1\r\nHost: a\r\n\r\n"+simple)},
		"in two pieces":     {nil, answers("200 200", simple[:9], simple[9:]+simple)},
		"half a head":       {nil, answers("400", simple[:9])},
		"the client leaves": {nil, ends},
		"the client resets": {nil, func(_ *testing.T, _ *ways, nc net.Conn) {
			_ = nc.(*net.TCPConn).SetLinger(0)
			nc.Close()
		}},
		"asks and leaves": {nil, func(_ *testing.T, _ *ways, nc net.Conn) {
			io.WriteString(nc, simple)
			nc.Close()
		}},
		"the last answer":   {func(w *ways) { w.LastAnswers() }, answers("200", simple+simple)},
		"a drain":           {func(w *ways) { w.LastAnswers(); w.DismissQuiet(true) }, ended},
		"too long idle":     {func(w *ways) { w.pass(int(time.Hour/w.period) + 2) }, ended},
		"a shorter timeout": {func(w *ways) { w.SetLimits(Limits{Head: 1, Write: 1, Idle: 1, Max: 5000, PerClient: 5000}); w.pass(1) }, ended},
		"a ban":             {func(w *ways) { w.Reset(netip.MustParsePrefix("127.0.0.0/8")) }, reset},
		"all are closed":    {func(w *ways) { w.CloseAll() }, ended},
		"make room": {func(w *ways) {
			w.Conns.mu.Lock()
			defer w.Conns.mu.Unlock()
			for w.evictLocked(&w.Conns.all, reasonFull) {
			}
		}, ended},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, accept := newWays(t)
			accept()
			all := w.parkAll(t, n)
			if c.first != nil {
				c.first(w)
			}
			for _, nc := range all {
				c.then(t, w, nc)
			}
			eventually(t, func() bool { return w.Open() == 0 })
		})
	}
}

// Connections in use, or in fasthttp's hands, are not parked; a client that asks again is parked again.
func TestWhoIsParked(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	odd := dialFrom(t, "127.0.0.1", w.addr)
	io.WriteString(odd, "GET /odd HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := odd.Read(make([]byte, 500)); err != nil {
		t.Fatal(err)
	}
	_ = dialFrom(t, "127.0.0.1", w.addr) // silent
	used := dialFrom(t, "127.0.0.1", w.addr)
	for range 3 * ticks {
		if ask(used) != 200 {
			t.Fatal("no answer")
		}
		eventually(t, func() bool { return w.Open() == 3 && w.allWait() })
		w.pass(ticks - 1)
	}
	for range 3 {
		w.pass(1)
		eventually(t, func() bool { return w.parkedNow() == 1 })
		if ask(odd) != 200 || ask(used) != 200 {
			t.Fatal("no answer")
		}
		eventually(t, func() bool { return w.allWait() && w.parkedNow() == 0 })
		w.pass(ticks - 1)
	}
	if got := w.parks.kept + w.parks.done.Load(); got != 3 {
		t.Errorf("%d have parked, want 3", got)
	}
}

// An order of which the connection has not heard yet is not given again: what takes the first one
// back would miss the second.
func TestOneOrderAtATime(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	ask(dialFrom(t, "127.0.0.1", w.addr))
	eventually(t, func() bool { return w.Open() == 1 && w.allWait() })
	w.each(func(c *Conn) {
		c.parking.resides.Store(false)
		c.parking.ordered.Store(true) // before it has left
		if w.orderPark(c) || !c.parking.ordered.Load() {
			t.Error("the first order is forgotten")
		}
		c.parking.ordered.Store(false)
		c.parking.state.Store(parked)
		c.parking.resides.Store(true)
		if w.orderPark(c) {
			t.Error("a parked connection is to park")
		}
		c.parking.state.Store(awake)
	})
}

// What has arrived is answered although the client has closed its side behind it: a relay gives
// back what it has not read, and the sweep finds the FIN meanwhile.
func TestFINBehindWhatIsGivenBack(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	w.listener.relay = func(c *Conn) (more bool) {
		if more = relayOne(c); more && len(c.in.replay) > 0 {
			c.wake()
		}
		return more
	}
	accept()
	nc := dialFrom(t, "127.0.0.1", w.addr)
	io.WriteString(nc, oddOne+strings.Repeat(simple, 5))
	_ = nc.(*net.TCPConn).CloseWrite()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	if b, err := io.ReadAll(nc); err != nil || strings.Count(string(b), " 200 ") != 6 {
		t.Errorf("%q, %v", b, err)
	}
}

// Stacks are given back when a crowd has parked, once a minute at most. Connections park after
// four seconds, and no earlier than after four ticks.
func TestWhenStacksAreGivenBack(t *testing.T) {
	t.Parallel()
	var p parks
	now := time.Unix(1e9, 0)
	for i, step := range []struct {
		more int64
		pass time.Duration
		kept int64
	}{
		{giveBackFrom - 1, time.Second, giveBackFrom - 1}, {0, time.Minute, giveBackFrom - 1}, // too few
		{giveBackFrom, time.Second, 2*giveBackFrom - 1}, {10, time.Second, 2*giveBackFrom + 9}, // more may come
		{10, time.Second, 0},                                                        // they are given back
		{5000, time.Second, 5000}, {0, 58 * time.Second, 5000}, {0, time.Second, 0}, // not again so soon
	} {
		now = now.Add(step.pass)
		p.done.Store(step.more)
		if p.giveBack(now); p.kept != step.kept {
			t.Errorf("step %d: %d wait for it, want %d", i, p.kept, step.kept)
		}
	}
	for period, want := range map[time.Duration]uint32{time.Hour: 4, time.Second: 4, 900 * time.Millisecond: 5, time.Millisecond: 4000} {
		if got := parkAfter(period); got != want {
			t.Errorf("%v: after %d ticks, want %d", period, got, want)
		}
	}
}

// Where Go's poller does not take the instance, nobody is watched: nothing would be heard of him.
// The next one is tried again.
func TestPollerIsRefused(t *testing.T) {
	t.Parallel()
	var p poller
	fd, err := syscall.Open(filepath.Join(t.TempDir(), "file"), syscall.O_CREAT|syscall.O_RDWR, 0o600) // no file can be polled
	if err != nil {
		t.Fatal(err)
	}
	if err := p.beginWithLocked(fd); err == nil || p.epoll != nil {
		t.Errorf("%v, %v", err, p.epoll)
	}
	if err := p.beginLocked(); err != nil || p.epoll == nil {
		t.Errorf("the next one: %v", err)
	}
	p.close()
}

// Where the poller takes no more, connections keep their goroutines.
func TestNobodyParksWithoutPoller(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	w.poller.close()
	nc := dialFrom(t, "127.0.0.1", w.addr)
	for range 3 {
		if ask(nc) != 200 {
			t.Fatal("no answer")
		}
		eventually(t, func() bool { return w.Open() == 1 && w.allWait() })
		w.pass(2 * ticks)
		w.each(func(c *Conn) { eventually(t, func() bool { return !c.parking.ordered.Load() }) })
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	eventually(t, func() bool { return w.Open() == 0 })
}

// An order that comes when a resident has just left is taken back: fasthttp does not see its
// deadline.
func TestOrderStaysWithTheResident(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	answer := w.listener.answer
	w.listener.answer = func(dst []byte, c *Conn, h *Head) ([]byte, bool, bool) {
		w.orderPark(c)
		return answer(dst, c, h)
	}
	accept()
	nc := dialFrom(t, "127.0.0.1", w.addr)
	io.WriteString(nc, simple+"GET /odd HTTP/1.1\r\nHost: a\r\n\r\n")
	time.Sleep(10 * time.Millisecond) // fasthttp waits
	io.WriteString(nc, simple)
	_ = nc.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(nc); err != nil || strings.Count(string(b), " 200 ") != 3 {
		t.Errorf("%q, %v", b, err)
	}
}

// calls is a socket that has something called when it is asked for its descriptor.
type calls struct {
	net.Conn
	call func()
}

func (c calls) SyscallConn() (syscall.RawConn, error) {
	c.call()
	return c.Conn.(syscall.Conn).SyscallConn()
}

// A connection that is wanted before it has parked keeps its goroutine.
func TestWantedBeforeItIsParked(t *testing.T) {
	t.Parallel()
	w, _ := newWays(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, wanted := range map[string]func(*Conn){
		"dismissed before": (*Conn).dismiss,
		"evicted before":   func(c *Conn) { c.orders.evicted.Store(true) },
		"called meanwhile": func(c *Conn) { c.Conn = calls{c.Conn, c.resume} },
		"bytes wait":       func(c *Conn) { c.in.replay = []byte("G") },
		"closed":           func(c *Conn) { c.Conn.Close() },
	} {
		dialFrom(t, "127.0.0.1", ln.Addr().String())
		nc, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c, _ := w.listener.place(nc, &Options{})
		c.enter(idle)
		wanted(c)
		if c.park() || c.parking.state.Load() != awake {
			t.Errorf("%s: it is parked", name)
		}
		w.remove(c)
		c.Conn.Close()
	}
	if n := len(w.poller.calls); n != 0 {
		t.Errorf("%d are still watched", n)
	}
}

// A dismissal and an order to park at the same time: the connection ends, in whichever order
// they come and are heard.
func TestDismissalMeetsAnOrder(t *testing.T) {
	t.Parallel()
	for i, give := range []func(*ways, *Conn){
		func(w *ways, c *Conn) { w.orderPark(c); c.dismiss() },
		func(w *ways, c *Conn) { c.dismiss(); w.orderPark(c) },
		func(_ *ways, c *Conn) { // heard between its two parts
			c.parking.ordered.Store(true)
			c.orders.woken.Store(true)
			c.orders.leave.Store(true)
			_ = c.SetReadDeadline(longAgo)
		},
	} {
		w, accept := newWays(t)
		accept()
		nc := dialFrom(t, "127.0.0.1", w.addr)
		if ask(nc) != 200 {
			t.Fatal("no answer")
		}
		eventually(t, func() bool { return w.Open() == 1 && w.allWait() })
		w.each(func(c *Conn) { give(w, c) })
		_ = nc.SetDeadline(testkit.Deadline(t))
		if b, err := io.ReadAll(nc); len(b) > 0 || err != nil {
			t.Errorf("%d: %q, %v", i, b, err)
		}
	}
}
