package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	set := perIP()
	set.Rules[0].Limit.Burst = 1000
	s := start(t, set, func(c *Config) {
		c.Drain.Delay = 700 * time.Millisecond
		c.Drain.Timeout = 20 * time.Second
	})
	idle := dial(t, s.addr)
	defer idle.Close()
	busy := dial(t, s.addr)
	defer busy.Close()
	// A request whose body is still on its way when the drain begins.
	io.WriteString(busy, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || resp.Close {
		t.Fatalf("before the drain: %v %v", resp, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()

	// First /readyz, while traffic is still taken but told to go away.
	eventually(t, func() bool { return s.run.Ready() != nil })
	if resp := get(t, "http://"+s.admin+"/readyz"); resp.StatusCode != 503 {
		t.Errorf("readyz %d", resp.StatusCode)
	}
	if resp := get(t, "http://"+s.admin+"/livez"); resp.StatusCode != 200 {
		t.Errorf("livez %d", resp.StatusCode)
	}
	all := raw(t, s.addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if len(all) != 1 || all[0].StatusCode != 200 || !all[0].Close {
		t.Errorf("during the delay: %v", all)
	}
	// Then the listener closes; the request in flight finishes.
	eventually(t, func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	io.WriteString(busy, "cd")
	resp, err := http.ReadResponse(bufio.NewReader(busy), nil)
	if err != nil || resp.StatusCode != 200 || !resp.Close {
		t.Errorf("the request in flight: %v %v", resp, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if s.logs.Count("draining") != 1 || s.logs.Count("drained") != 1 {
		t.Errorf("logs:\n%s", s.logs)
	}
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, perIP(), func(c *Config) {
		c.Drain.Timeout = 200 * time.Millisecond
		c.Connections.HeaderTimeout = time.Hour
	})
	c := dial(t, s.addr)
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHo")
	eventually(t, func() bool { return s.conns.Open() == 1 })
	err := s.stop()
	if err == nil || !strings.Contains(err.Error(), "1 connections were cut") {
		t.Errorf("got %v", err)
	}
	eventually(t, func() bool { return s.conns.Open() == 0 })
}

func TestServeWithACancelledContextReturns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for range 20 {
		s, err := New(newConfig(t, perIP()))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := s.Serve(ctx); err != nil { // it listens by itself
				t.Error(err)
			}
		})
	}
	all.Wait()
}
