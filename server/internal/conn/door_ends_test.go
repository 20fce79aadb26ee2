//go:build linux && (amd64 || arm64)

package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// door returns a door that takes connections on request.
func (w *ways) door(t *testing.T) *door {
	t.Helper()
	raw, err := w.listener.ln.Listener.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return newDoorOf(w.listener, raw)
}

// drain makes the listener take what is left and end.
func (w *ways) drain() {
	w.listener.Drain()
	go w.listener.Accept()
	<-w.listener.accepted
}

// A door that has taken some connections before descriptors run out has not failed: the next client need not
// wait longer than the first that had to.
func TestDoorWithoutDescriptors(t *testing.T) { // not parallel: it lowers the limit of the process
	w, _ := stoppedDoor(t, Limits{Max: 100, PerClient: 100})
	d := w.door(t)
	for range 5 {
		_, _ = io.WriteString(dialFrom(t, "127.0.0.1", w.addr), "GET /later HTTP/1.1\r\n") // is kept
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	free, err := os.Open(os.DevNull) // the lowest that is free
	if err != nil {
		t.Fatal(err)
	}
	low := syscall.Rlimit{Cur: uint64(free.Fd()) + 3, Max: was.Max}
	free.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	first, second := d.step(), d.step()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if taken := d.taken; first != nil || !errors.Is(second, syscall.EMFILE) || taken != 3 {
		t.Errorf("%v, then %v after %d connections", first, second, taken)
	}
	d.err = nil
	_ = d.raw.Control(func(listening uintptr) { d.take(listening, 5) })
	if d.err != nil || d.taken != 5 {
		t.Errorf("%v after %d connections", d.err, d.taken)
	}
	w.drain()
}

// While many dismissed connections are still open, no door sleeps with the poller's lock: if it
// did, for each connection, these would take 20 s.
func TestDoorWaitsForTheDismissedOutside(t *testing.T) {
	t.Parallel()
	const n = 200
	w, _ := stoppedDoor(t, Limits{Max: 2 * n, PerClient: 2 * n})
	d := w.door(t)
	for range n {
		_, _ = io.WriteString(dialFrom(t, "127.0.0.1", w.addr), "GET /later HTTP/1.1\r\n")
	}
	gone := func(members []*Conn) {
		w.Conns.mu.Lock()
		defer w.Conns.mu.Unlock()
		w.gone.members = members
	}
	gone(make([]*Conn, maxGone))
	defer gone(nil)
	taken := make(chan bool, 1)
	go d.raw.Control(func(listening uintptr) { taken <- d.take(listening, n) })
	eventually(t, func() bool { return len(taken) == 1 })
}

// A door at which connections rest does not wait with them, neither for the one that has the poller
// nor when the listener ends.
func TestDoorLooksAfterThoseWhoRest(t *testing.T) {
	t.Parallel()
	w, _ := stoppedDoor(t, Limits{Max: 100, PerClient: 100})
	d := w.door(t)
	entered, once := make(chan struct{}), sync.Once{}
	go d.raw.Read(func(uintptr) bool {
		once.Do(func() { close(entered) })
		return false
	})
	<-entered
	var waiting sync.WaitGroup
	for i, look := range []func(*door) error{(*door).step, func(d *door) error {
		w.listener.ln.draining.Store(true)
		return d.run(true)
	}} {
		_, _ = io.WriteString(dialFrom(t, "127.0.0.1", w.addr), "GET /deny HTTP/1.1\r\nHost: a\r\n\r\n")
		d := w.door(t)
		_ = d.raw.Control(func(listening uintptr) { d.take(listening, 1) })
		if len(d.resting) != 1 {
			t.Fatalf("%d rest", len(d.resting))
		}
		waiting.Go(func() { _ = look(d) })
		eventually(t, func() bool { _, kept := w.Accepted(); return kept == uint64(i)+1 })
	}
	w.drain()
	waiting.Wait()
}

// A Unix connection that is reset at the door is released before the next one takes its slot.
func TestUnixResetAtTheDoor(t *testing.T) {
	t.Parallel()
	w, _ := stoppedDoor(t, Limits{Max: 100, PerClient: 100})
	w.listener.Unbind()
	path := filepath.Join(testkit.ShortDir(t), "s")
	if err := w.listener.Bind("unix:" + path); err != nil {
		t.Fatal(err)
	}
	go w.listener.Accept()
	for range 100 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, closing("/reset"))
		if got, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) || strings.Contains(string(got), "door") {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	}
	w.listener.Drain()
	<-w.listener.accepted
}
