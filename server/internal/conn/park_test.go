//go:build linux && (amd64 || arm64)

package conn

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// pass has so many ticks pass.
func (w *ways) pass(ticks int) {
	for range ticks {
		w.sweep()
		w.lookAtQuiet()
	}
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
	w.pass(parkAfter - 1)
	if got := w.parks.kept + w.parks.ordered; got != 0 {
		t.Fatalf("%d are to park %d ticks after their requests", got, parkAfter-1)
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

// Those that are used, or that fasthttp has, are not parked; whoever asks again is parked again.
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
	for range 3 * parkAfter {
		if ask(used) != 200 {
			t.Fatal("no answer")
		}
		eventually(t, func() bool { return w.Open() == 3 && w.allWait() })
		w.pass(parkAfter - 1)
	}
	for range 3 {
		w.pass(1)
		eventually(t, func() bool { return w.parkedNow() == 1 })
		if ask(odd) != 200 || ask(used) != 200 {
			t.Fatal("no answer")
		}
		eventually(t, func() bool { return w.allWait() && w.parkedNow() == 0 })
		w.pass(parkAfter - 1)
	}
	if got := w.parks.kept + w.parks.ordered; got != 3 {
		t.Errorf("%d orders to park, want 3", got)
	}
}

// Whenever connections are told to park, each request gets its answer.
func TestParkedAtAnyPoint(t *testing.T) {
	t.Parallel()
	w, accept := newWays(t)
	accept()
	const clients = 8
	requests := testkit.Size(500, 20000)
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			nc := dialFrom(t, "127.0.0.1", w.addr)
			_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
			br := bufio.NewReader(nc)
			random := rand.New(rand.NewPCG(1, uint64(i)))
			var answers atomic.Int32
			for range requests {
				many := 1 + random.IntN(3)
				first := random.IntN(many + 1)
				io.WriteString(nc, strings.Repeat(simple, first))
				io.WriteString(nc, strings.Repeat(simple, many-first))
				if !answered(br, many, &answers) {
					t.Error("a request has no answer")
					return
				}
				if random.IntN(2) > 0 {
					time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
				}
			}
		})
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	times := 0
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			w.each(func(c *Conn) {
				if c.phase() == idle {
					w.orderPark(c)
				}
			})
			times += w.parkedNow()
			time.Sleep(time.Duration(i%5) * 20 * time.Microsecond)
		}
	}()
	wait.Wait()
	close(stop)
	<-ended
	if times == 0 {
		t.Error("none was parked")
	}
	w.pass(2 * parkAfter)
	w.LastAnswers()
	w.DismissQuiet(true)
	eventually(t, func() bool { return w.Open() == 0 })
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
		w.pass(2 * parkAfter)
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
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		if b, err := io.ReadAll(nc); len(b) > 0 || err != nil {
			t.Errorf("%d: %q, %v", i, b, err)
		}
	}
}
