//go:build linux

package load

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
	"golang.org/x/sys/unix"
)

// All requests of a batch are there when the server goes on, and all are answered when
// it is halted again.
func TestSpinQueue(t *testing.T) {
	t.Parallel()
	const conns = 20
	var gate sync.RWMutex
	var answered atomic.Int64
	p := newPieces(t, func(int64) ([]string, bool) {
		gate.RLock()
		defer gate.RUnlock()
		answered.Add(1)
		return []string{okAnswer}, true
	})
	var batches int64
	halt := func(stop bool) error {
		if stop {
			gate.Lock()
			if n := answered.Load(); n != batches*conns {
				t.Errorf("%d answers after %d batches of %d", n, batches, conns)
			}
			batches++
			return nil
		}
		defer gate.Unlock()
		for end := testkit.Deadline(t); p.requests.Load() < batches*conns; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return errors.New("the server goes on before all requests have come")
			}
		}
		return nil
	}
	for _, leave := range []bool{false, true} {
		before := batches
		o := spin(t, p, SpinConfig{Conns: conns, Requests: 2*conns + 1, Reconnect: true, Leave: leave, Queue: true, Halt: halt})
		if n := batches - before; n != 3 || o.Total() != n*conns || o.Failed != 0 {
			t.Errorf("%d answers in %d batches, %d failures (%s): want whole batches", o.Total(), n, o.Failed, o.Failure)
		}
	}
	c := SpinConfig{Addr: p.Addr().String(), Request: []byte("x"), Conns: 1, Requests: 1, Reconnect: true, Queue: true}
	stuck := errors.New("stuck")
	c.Halt = func(bool) error { return stuck }
	if _, err := Spin(t.Context(), c); !errors.Is(err, stuck) {
		t.Errorf("error %v", err)
	}
}

// The probe is looked after between two events: it is sent, and its answer is read,
// though no poll has told of it.
func TestSpinAttendsToProbe(t *testing.T) {
	t.Parallel()
	p := newPieces(t, always(okAnswer))
	server, err := sockaddr(p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	request := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	s := &spinner{
		SpinConfig: SpinConfig{Conns: 1, Request: request, Probe: &SpinProbe{Request: request, Rate: 1}},
		epoll:      epoll, server: server, probeServer: server, start: time.Now(), probeDue: 1,
		buf: make([]byte, 1<<10), events: make([]unix.EpollEvent, 1), free: make([]int32, 1),
		conns: []spinConn{{fd: -1}, {fd: -1}}, latency: NewHistogram(), service: NewHistogram(), probed: NewHistogram(),
	}
	defer s.close()
	s.sendNow(0)
	end := testkit.Deadline(t)
	// At first all events are those of the load.
	for s.probed.TotalCount() == 0 && s.conns[1].state < spinWaiting && time.Now().Before(end) {
		if err := s.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for ; s.probed.TotalCount() == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := s.attend(); err != nil {
			t.Fatal(err)
		}
	}
	if s.probed.TotalCount() != 1 {
		t.Error("the probe is not sent, or its answer is not read, without a poll")
	}
}
