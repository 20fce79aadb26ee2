//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// pieces is a server that answers each request as it is told, in pieces that it
// writes one by one.
type pieces struct {
	net.Listener

	conns, requests atomic.Int64
}

// newPieces answers the nth request of all, counted from 1, with the pieces that
// answer returns; after none, or the last if end is set, it closes.
func newPieces(t *testing.T, answer func(n int64) (parts []string, end bool)) *pieces {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &pieces{Listener: ln}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			go p.serve(conn, answer)
		}
	}()
	return p
}

func (p *pieces) serve(conn net.Conn, answer func(n int64) ([]string, bool)) {
	defer conn.Close()
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		if err != nil || !strings.HasSuffix(string(buf[:n]), "\r\n\r\n") {
			return
		}
		parts, end := answer(p.requests.Add(1))
		for i, part := range parts {
			if i > 0 { // else they could arrive as one
				time.Sleep(time.Millisecond)
			}
			if _, err := io.WriteString(conn, part); err != nil {
				return
			}
		}
		if len(parts) == 0 || end {
			return
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func always(parts ...string) func(int64) ([]string, bool) {
	return func(int64) ([]string, bool) { return parts, false }
}

func spin(t *testing.T, p *pieces, c SpinConfig) *SpinOutcome {
	t.Helper()
	c.Addr = p.Addr().String()
	if c.Request == nil {
		c.Request = []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	o, err := Spin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Every answer is counted once, by its status, and has its latency.
func TestSpinCounts(t *testing.T) {
	t.Parallel()
	statuses := []int{200, 204, 429, 403, 503, 500}
	p := newPieces(t, func(n int64) ([]string, bool) {
		return []string{fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n", statuses[n%int64(len(statuses))])}, false
	})
	begun, ended := int64(0), int64(0)
	o := spin(t, p, SpinConfig{
		Conns: 3, Sources: 3, Requests: 600,
		Begin: func() { begun = p.requests.Load() }, End: func() { ended = p.requests.Load() },
	})
	// Up to two more come in the turn with the last one. Three may be on their way
	// when the measurement begins, or ends.
	if n := o.Total(); n < 600 || n > 602 || o.Ever != n+3 || ended-begun < n-3 || ended-begun > n+3 {
		t.Errorf("%d answers, %d with those of opening; %d requests meanwhile: want 600, and 3 more", n, o.Ever, ended-begun)
	}
	for _, status := range statuses {
		if n := o.Status[status]; n < 98 || n > 102 {
			t.Errorf("%d answers with status %d, want 100", n, status)
		}
	}
	if n := o.Class(2); n != o.Status[200]+o.Status[204] {
		t.Errorf("%d answers 2xx", n)
	}
	if n := o.Denied(); n != o.Status[429]+o.Status[403]+o.Status[503] {
		t.Errorf("%d denied", n)
	}
	if n := hdrhistogram.Import(o.Latency).TotalCount(); n != o.Total() || o.Failed != 0 || o.Elapsed <= 0 || p.conns.Load() != 3 {
		t.Errorf("%d latencies, %d failures, %v, %d connections", n, o.Failed, o.Elapsed, p.conns.Load())
	}
}

// Answers are framed by Content-Length, wherever they are cut.
func TestSpinFrames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000) // more than is read at once
	for _, parts := range [][]string{
		{okAnswer},
		{okAnswer[:5], okAnswer[5:]},
		{okAnswer[:len(okAnswer)-4], okAnswer[len(okAnswer)-4:]}, // within the blank line
		{okAnswer[:len(okAnswer)-2], "o", "k"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long},
	} {
		p := newPieces(t, always(parts...))
		if o := spin(t, p, SpinConfig{Conns: 2, Requests: 20}); o.Status[200] < 20 || o.Failed != 0 || p.conns.Load() != 2 {
			t.Errorf("%.60q: %d answers, %d failures (%s), %d connections", parts, o.Total(), o.Failed, o.Failure, p.conns.Load())
		}
	}
	for _, bad := range []string{"220 mail\r\n\r\n", okAnswer + "x", "HTTP/1.1 200 OK\r\n\r\n"} {
		p := newPieces(t, always(bad))
		_, err := Spin(t.Context(), SpinConfig{Addr: p.Addr().String(), Request: []byte("GET\r\n\r\n"), Conns: 1, Requests: 1})
		if !errors.As(err, new(nonsense)) {
			t.Errorf("%q: error %v, want the end of the run", bad, err)
		}
	}
}

// A connection that breaks costs its request, and is replaced. One that ends with
// its answer costs nothing.
func TestSpinReplacesConnections(t *testing.T) {
	t.Parallel()
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		p := newPieces(t, func(n int64) ([]string, bool) {
			if n%10 == 0 {
				return nil, true
			}
			return []string{okAnswer}, false
		})
		o := spin(t, p, SpinConfig{Conns: 2, Requests: 90})
		// One in ten of about 102, including those of opening.
		if o.Failed < 8 || o.Failed > 11 || !strings.Contains(o.Failure, "EOF") && !strings.Contains(o.Failure, "reset") {
			t.Errorf("%d failures (%s), want about 10", o.Failed, o.Failure)
		}
		if n := p.conns.Load(); n < 2+o.Failed-1 || n > 2+o.Failed+1 {
			t.Errorf("%d connections for %d failures", n, o.Failed)
		}
	})
	t.Run("closed with the answer", func(t *testing.T) {
		t.Parallel()
		answer := strings.Replace(okAnswer, "\r\n", "\r\nConnection: close\r\n", 1)
		p := newPieces(t, func(int64) ([]string, bool) { return []string{answer}, true })
		o := spin(t, p, SpinConfig{Conns: 2, Requests: 50})
		if o.Failed != 0 || p.conns.Load() < 50 {
			t.Errorf("%d failures (%s), %d connections", o.Failed, o.Failure, p.conns.Load())
		}
	})
	t.Run("one for each request", func(t *testing.T) {
		t.Parallel()
		p := newPieces(t, func(int64) ([]string, bool) { return []string{okAnswer}, true })
		o := spin(t, p, SpinConfig{Conns: 4, Sources: 2, Requests: 50, Reconnect: true})
		if o.Failed != 0 || o.Total() < 50 || p.requests.Load() < 50 || p.conns.Load() < p.requests.Load() {
			t.Errorf("%d answers, %d failures (%s), %d connections for %d requests", o.Total(), o.Failed, o.Failure, p.conns.Load(), p.requests.Load())
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		p := newPieces(t, always(okAnswer))
		p.Close()
		c := SpinConfig{Addr: p.Addr().String(), Request: []byte("x"), Conns: 2, Requests: 1}
		if _, err := Spin(t.Context(), c); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v", err)
		}
		c.Reconnect = true
		if _, err := Spin(t.Context(), c); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v", err)
		}
	})
}

// An open loop sends what is due however long an answer takes, and the wait for a
// free connection counts.
func TestSpinOpenLoop(t *testing.T) {
	t.Parallel()
	const stall = 200 * time.Millisecond
	p := newPieces(t, func(n int64) ([]string, bool) {
		if n == 100 {
			time.Sleep(stall)
		}
		return []string{okAnswer}, false
	})
	o := spin(t, p, SpinConfig{Conns: 1, Rate: 500, Requests: 300})
	// The stall holds up the hundred requests that are due meanwhile.
	latency, service := hdrhistogram.Import(o.Latency), hdrhistogram.Import(o.Service)
	if late, slow := atLeast(latency, stall/4), atLeast(service, stall/4); late < 50 || late <= slow {
		t.Errorf("%d requests waited for a quarter of the stall, %d from being sent", late, slow)
	}
}

// What is due by the end is answered or was not sent.
func TestSpinOpenLoopEnds(t *testing.T) {
	t.Parallel()
	o := spin(t, newPieces(t, always(okAnswer)), SpinConfig{Conns: 1, Rate: 500, Duration: 400 * time.Millisecond})
	due := 500 * o.Elapsed.Seconds()
	if n := float64(o.Total() + o.Unsent); n < due-3 || n > due+3 {
		t.Errorf("%d answers and %d not sent, want %.0f", o.Total(), o.Unsent, due)
	}
}

// Void is decided by counters.
func TestSpinVoid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		polls, empty int64
		want         bool
	}{{0, 0, true}, {1000, 29, true}, {1000, 30, false}, {1000, 1000, false}} {
		o := SpinOutcome{Polls: c.polls, Empty: c.empty}
		if o.Void() != c.want {
			t.Errorf("%d of %d polls found nothing: void %v", c.empty, c.polls, !c.want)
		}
	}
	p := newPieces(t, always(okAnswer))
	o := spin(t, p, SpinConfig{Conns: 1, Requests: 100})
	if o.Polls-o.Empty != o.Total() { // of one connection a poll finds one answer or nothing
		t.Errorf("%d polls, %d found nothing, %d answers", o.Polls, o.Empty, o.Total())
	}
}

// The probe asks its own server at its own rate, and is no part of the load.
func TestSpinProbe(t *testing.T) {
	t.Parallel()
	probe := &SpinProbe{Request: []byte("GET /readyz HTTP/1.1\r\nHost: b\r\n\r\n"), Rate: 1000}
	// answered loads a server, for longer and longer until the probe of another one has had an answer.
	answered := func(load, other string) (p, probed *pieces, o *SpinOutcome, n int64) {
		for d := 50 * time.Millisecond; n == 0; d *= 2 {
			p = newPieces(t, always(load))
			if other != "" {
				probed = newPieces(t, always(other))
				probe.Addr = probed.Addr().String()
			}
			o = spin(t, p, SpinConfig{Conns: 2, Duration: d, Probe: probe})
			n = hdrhistogram.Import(o.Probe).TotalCount()
		}
		return p, probed, o, n
	}
	// Without an address of its own it asks the server under load.
	if _, _, o, n := answered("HTTP/1.1 429 X\r\nContent-Length: 0\r\n\r\n", ""); o.ProbeDenied != n {
		t.Errorf("%d of %d answers to the probe are denials", o.ProbeDenied, n)
	}
	p, other, o, n := answered(okAnswer, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n")
	asked := other.requests.Load()
	if due := int64(1000*o.Elapsed.Seconds()) + 2; n > asked || asked > due || other.conns.Load() != 1 {
		t.Errorf("%d answers to %d requests over %d connections, %d were due", n, asked, other.conns.Load(), due)
	}
	if late := p.requests.Load() - o.Ever; o.Status[503] != 0 || late < 0 || late > 2 {
		t.Errorf("%d answers of %d requests, by status %v", o.Ever, p.requests.Load(), o.Status)
	}
	probe.Addr = "localhost:1"
	if _, err := Spin(t.Context(), SpinConfig{Addr: p.Addr().String(), Request: []byte("x"), Conns: 1, Probe: probe}); err == nil {
		t.Error("a probe without an address is accepted")
	}
}

// Without requests to measure all connections are open, and have had an answer, when
// Open is called.
func TestSpinOpensAll(t *testing.T) {
	t.Parallel()
	p := newPieces(t, always(okAnswer))
	var conns, requests int64
	spin(t, p, SpinConfig{Conns: 300, Sources: 300, Open: func() { conns, requests = p.conns.Load(), p.requests.Load() }})
	if conns != 300 || requests != 300 {
		t.Errorf("%d connections, %d requests, want 300 of each", conns, requests)
	}
}

func TestSpinEnds(t *testing.T) {
	t.Parallel()
	p := newPieces(t, always(okAnswer))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := SpinConfig{Addr: p.Addr().String(), Request: []byte("GET\r\n\r\n"), Conns: 1, Duration: time.Hour, Begin: func() { cancel(stop) }}
	if _, err := Spin(ctx, c); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	for _, bad := range []SpinConfig{
		{Addr: c.Addr, Request: c.Request},
		{Addr: c.Addr, Conns: 1},
		{Addr: "[::1]:80", Request: c.Request, Conns: 1},
		{Addr: c.Addr, Request: c.Request, Conns: 1, Rate: -1},
		{Addr: c.Addr, Request: c.Request, Conns: 1, Requests: 1, Queue: true, Reconnect: true},
		{Addr: c.Addr, Request: c.Request, Conns: 1, Requests: 1, Queue: true, Halt: func(bool) error { return nil }},
	} {
		if _, err := Spin(t.Context(), bad); err == nil {
			t.Errorf("%+v accepted", bad)
		}
	}
}
