//go:build linux

package netns

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is what clients ask. A request that gets no answer in time, because packets are
// dropped, is given up, and the next one is sent all the same.
type Load struct {
	Server  string       // address and port
	Sources []netip.Addr // of the family of the server
	Conns   int          // at a time, each new one from the next source; 0: one for each source
	// KeepAlive sends requests over a connection as long as it lasts; else each has one
	// of its own, which the server closes.
	KeepAlive bool
	Rate      float64       // requests per second of all connections, fewer if the answers take longer
	Patience  time.Duration // until a request is given up; 0: a minute, in which every answer comes
	Header    string        // more header lines, each with its CRLF
}

// Impatience is the Patience of who is to be dropped, and whose losses are waited for. An answer
// of a busy machine takes longer now and then: it is no figure for those who must be served.
const Impatience = 250 * time.Millisecond

// Counts are what became of requests.
type Counts struct {
	Sent                  int64
	Served, Denied, Other int64 // answers 200, 429 and the rest
	Lost                  int64 // no answer

	latencies []time.Duration // of those served
}

// Since is what has come since counts of the same load that are older.
func (c Counts) Since(b Counts) Counts {
	return Counts{c.Sent - b.Sent, c.Served - b.Served, c.Denied - b.Denied, c.Other - b.Other, c.Lost - b.Lost, c.latencies[min(len(b.latencies), len(c.latencies)):]}
}

// Quantile is that of the time to an answer 200, connecting included; 0 without any.
func (c Counts) Quantile(q float64) time.Duration {
	if len(c.latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.latencies))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Running is a load that is being sent. It is safe for concurrent use.
type Running struct {
	Load
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	dialed atomic.Int64

	mu     sync.Mutex
	counts Counts // guarded by mu
}

// Start begins to send. Whoever calls it stops it.
func (l Load) Start() *Running {
	if l.Conns == 0 {
		l.Conns = len(l.Sources)
	}
	if l.Patience == 0 {
		l.Patience = time.Minute
	}
	r := &Running{Load: l}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	pace := time.Duration(float64(l.Conns) / l.Rate * float64(time.Second))
	begin := time.Now()
	for i := range l.Conns {
		first := begin.Add(pace * time.Duration(i) / time.Duration(l.Conns))
		r.wg.Go(func() { r.work(first, pace) })
	}
	return r
}

// Stop ends the load and returns what has become of it.
func (r *Running) Stop() Counts {
	r.cancel()
	r.wg.Wait()
	return r.Counts()
}

// Counts are those so far.
func (r *Running) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts
	c.latencies = slices.Clip(c.latencies) // they go on
	return c
}

// For returns the counts of the time from now on.
func (r *Running) For(d time.Duration) Counts {
	before := r.Counts()
	time.Sleep(d)
	return r.Counts().Since(before)
}

// client is an open connection.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// work is one connection after another. A request that is late delays those after it:
// none are sent in a heap.
func (r *Running) work(due time.Time, pace time.Duration) {
	var c *client
	for {
		select {
		case <-r.ctx.Done():
			if c != nil {
				c.conn.Close()
			}
			return
		case <-time.After(time.Until(due)):
		}
		c = r.ask(c)
		if due = due.Add(pace); time.Since(due) > 0 {
			due = time.Now()
		}
	}
}

// ask sends a request, over a new connection if there is none, and returns the
// connection if it can be used again.
func (r *Running) ask(c *client) *client {
	begin := time.Now()
	ctx, cancel := context.WithDeadline(r.ctx, begin.Add(r.Patience))
	defer cancel()
	if c == nil {
		from := (r.dialed.Add(1) - 1) % int64(len(r.Sources))
		conn, err := Dial(ctx, r.Sources[from], r.Server)
		if err != nil {
			r.count(begin, 0)
			return nil
		}
		c = &client{conn, bufio.NewReaderSize(conn, 1024)}
	}
	_ = c.conn.SetDeadline(begin.Add(r.Patience)) // of an open socket
	status, ended := r.exchange(c)
	r.count(begin, status)
	if status != 0 && !ended {
		return c
	}
	if status == 0 {
		_ = c.conn.(*net.TCPConn).SetLinger(0) // its FIN would be sent again and again
	} else {
		_, _ = c.conn.Read(make([]byte, 1)) // whoever closes first has the port busy for a minute: let the server
	}
	c.conn.Close()
	return nil
}

// exchange sends a request and reads the answer; 0 is none.
func (r *Running) exchange(c *client) (status int, ended bool) {
	closing := ""
	if !r.KeepAlive {
		closing = "Connection: close\r\n"
	}
	if _, err := io.WriteString(c.conn, "GET / HTTP/1.1\r\nHost: a\r\n"+closing+r.Header+"\r\n"); err != nil {
		return 0, true
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, true
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, true
	}
	return resp.StatusCode, resp.Close
}

func (r *Running) count(begin time.Time, status int) {
	if status == 0 && r.ctx.Err() != nil {
		return // it was not given the time
	}
	took := time.Since(begin)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counts
	c.Sent++
	switch status {
	case http.StatusOK:
		c.Served++
		c.latencies = append(c.latencies, took)
	case http.StatusTooManyRequests:
		c.Denied++
	case 0:
		c.Lost++
	default:
		c.Other++
	}
}
