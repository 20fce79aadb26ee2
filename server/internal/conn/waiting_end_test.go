package conn

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A client that does not take earlier answers keeps no slot, nor does one that has to go.
func TestSlowReaderHasNoPlace(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // the answers are not ours to send there
	}
	c, blocked := &Conn{conns: newConns(1, 1)}, full{}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	c.Conn, c.out.unsent = ours, blocked
	if ctx := c.BeginWait(); ctx.Err() == nil {
		t.Error("it waits")
	}
	c.EndWait()
	c.out.unsent = nil
	if ctx := c.BeginWait(); ctx.Err() != nil {
		t.Error("it does not wait")
	}
	if c.EndWait(); c.phase() != writing {
		t.Error("the time for its answer does not run")
	}
	c.orders.evicted.Store(true) // to make room, before its request began to wait
	if ctx := c.BeginWait(); ctx.Err() == nil {
		t.Error("it waits although it was evicted")
	}
	c.EndWait()
}

type full struct{}

func (full) flush() bool { return false }

func (full) skip() int { return 0 }

// What makes room for others is denied and ends; a request that begins to wait meanwhile too.
func TestEvictedWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, hide := range []bool{false, true} {
		q := newQueue(t, hide)
		nc := dialFrom(t, "127.0.0.1", q.addr)
		io.WriteString(nc, target("/wait")+target("/wait"))
		q.waiting(t, 1)
		q.mu.Lock()
		q.Conns.mu.Lock()
		if !q.evictLocked(&q.Conns.all, reasonFull) {
			t.Error("nobody can go")
		}
		q.Conns.mu.Unlock()
		q.mu.Unlock()
		if b, err := io.ReadAll(nc); err != nil || strings.Count(string(b), "200 OK") != 1 {
			t.Errorf("%q, %v", b, err)
		}
		if got := q.all(); got != "!/wait" {
			t.Error(got)
		}
	}
}

// When all connections are closed nobody waits on one any more.
func TestCloseAllEndsWaits(t *testing.T) {
	t.Parallel()
	for _, hide := range []bool{false, true} {
		q := newQueue(t, hide)
		nc := dialFrom(t, "127.0.0.1", q.addr)
		io.WriteString(nc, target("/wait"))
		q.waiting(t, 1)
		if n := q.CloseAll(); n != 1 {
			t.Errorf("%d connections", n)
		}
		q.waiting(t, 0)
		eventually(t, func() bool { return q.Open() == 0 })
		if got := q.all(); got != "!/wait" {
			t.Error(got)
		}
	}
}

// Requests cannot wait if their clients' leaving cannot be noticed.
func TestCannotBeWatched(t *testing.T) {
	t.Parallel()
	q := newQueue(t, false)
	q.Close()
	nc := dialFrom(t, "127.0.0.1", q.addr)
	io.WriteString(nc, target("/wait"))
	want := "!/wait"
	if runtime.GOOS != "linux" {
		want = "/wait"
		q.called <- struct{}{}
	}
	eventually(t, func() bool { return q.all() == want })
}

// The longest waiter goes last, and all waiters go before idle connections.
func TestQueuedMakeRoom(t *testing.T) {
	t.Parallel()
	conns := newConns(10, 10)
	var all []*Conn
	for i, p := range []phase{idle, queued, queued, reading, queued, writing} {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		c := conns.wrap(ours)
		conns.admit(c)
		conns.tick.Store(uint32(i))
		c.enter(p)
		all = append(all, c)
	}
	var order []int
	for range 5 {
		conns.mu.Lock()
		conns.evictLocked(&conns.all, reasonFull)
		conns.mu.Unlock()
		for i, c := range all {
			if c.orders.evicted.Load() && !strings.Contains(fmt.Sprint(order), fmt.Sprint(i)) {
				order = append(order, i)
			}
		}
	}
	if fmt.Sprint(order) != "[4 2 1 0 3]" {
		t.Errorf("%v", order)
	}
}

// No timeout ends a wait.
func TestSweepLeavesTheQueue(t *testing.T) {
	t.Parallel()
	q := newQueue(t, false)
	nc := dialFrom(t, "127.0.0.1", q.addr)
	io.WriteString(nc, target("/wait"))
	q.waiting(t, 1)
	q.tick.Add(1 << 30)
	for range 3 {
		q.sweep()
		q.lookAtQuiet()
	}
	q.called <- struct{}{}
	eventually(t, func() bool { return q.all() == "/wait" })
	if q.Open() != 1 {
		t.Error("the connection has ended")
	}
}

// One goroutine watches over all, and ends with them.
func TestOneGoroutineWatches(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	count := func() int {
		buf := make([]byte, 1<<20)
		return strings.Count(string(buf[:runtime.Stack(buf, true)]), "poller).beginWithLocked.func")
	}
	before := count()
	q := newQueue(t, false)
	var all []net.Conn
	for range 20 {
		nc := dialFrom(t, "127.0.0.1", q.addr)
		io.WriteString(nc, target("/wait"))
		all = append(all, nc)
	}
	q.waiting(t, 20)
	files := func() int {
		names, _ := os.ReadDir("/proc/self/fd")
		n := 0
		for _, f := range names {
			if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.Contains(to, "eventpoll") {
				n++
			}
		}
		return n
	}
	if n := count() - before; n < 1 || n > 2 { // 2: runtime.Stack names who created it, too
		t.Errorf("%d goroutines", n)
	}
	open := files()
	for _, nc := range all {
		nc.Close()
	}
	q.waiting(t, 0)
	q.Close()
	q.Close() // may be called again
	if n := count(); n != before || files() != open-1 {
		t.Errorf("%d goroutines, before %d; %d epoll instances, before %d", n, before, files(), open)
	}
}
