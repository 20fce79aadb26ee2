package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// world dials connections that only count, and knows how many there are.
type world struct {
	t      *testing.T
	mu     sync.Mutex // of the maps, where callers share them
	down   map[string]bool
	delay  func() time.Duration
	open   atomic.Int64 // those being dialled included
	most   atomic.Int64
	dialed map[string]int
}

// counted is a connection that nothing is sent on.
type counted struct {
	net.Conn
	w      *world
	owned  atomic.Bool
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.w.open.Add(-1)
	return nil
}

func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if n := w.open.Add(1); n > w.most.Load() {
		w.most.Store(n)
	}
	if w.delay != nil {
		select {
		case <-time.After(w.delay()):
		case <-ctx.Done():
			w.open.Add(-1)
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dialed != nil {
		w.dialed[address]++
	}
	if w.down[address] {
		w.open.Add(-1)
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return &counted{w: w}, nil
}

func servers(n int) (all []Server) {
	for i := range n {
		name := string(rune('a' + i))
		all = append(all, Server{Network: "tcp", Address: name, Name: name})
	}
	return all
}

// check wants the invariants of a pool in which nothing is going on: everybody holds a
// connection, dials, or waits.
func check(t *testing.T, p *Pool, w *world) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	held, idle, ejected := 0, 0, 0
	for _, s := range p.servers {
		held, idle = held+s.inUse, idle+s.idle.len
		n := 0
		for c := s.idle.newest; c != nil; c = c.older {
			if n++; c.lent {
				t.Fatal("an idle connection is lent")
			}
		}
		if n != s.idle.len {
			t.Fatalf("%d idle connections, counted %d", n, s.idle.len)
		}
		if s.ejected {
			ejected++
		}
		if s.ejected && s.idle.len > 0 {
			t.Fatal("idle connections of an ejected server")
		}
	}
	switch {
	case p.open != held+idle:
		t.Fatalf("%d open, %d in use, %d idle", p.open, held, idle)
	case p.open > p.config.MaxConnections:
		t.Fatalf("%d open", p.open)
	case p.line.turns != held:
		t.Fatalf("%d turns, %d in use", p.line.turns, held)
	case p.line.len > p.config.MaxQueue:
		t.Fatalf("%d in line", p.line.len)
	case ejected != p.ejected:
		t.Fatalf("%d ejected, counted %d", ejected, p.ejected)
	case w.most.Load() > int64(p.config.MaxConnections):
		t.Fatalf("%d connections at a time", w.most.Load())
	}
	checkLine(t, p)
}

// checkLine wants the invariants of the line: nobody waits who may have a turn.
func checkLine(t *testing.T, p *Pool) {
	t.Helper()
	l := &p.line
	turns, waiting, ring := 0, 0, 0
	for who, c := range l.clients {
		n := 0
		for w := c.first; w != nil; w = w.behind {
			if n++; w.client != c {
				t.Fatal("somebody waits for somebody else")
			}
		}
		turns, waiting = turns+c.turns, waiting+n
		switch {
		case c.who != who || c.turns+n == 0 || n != c.waiting || (c.next != nil) != (n > 0):
			t.Fatalf("%v: %+v, %d wait", who, c, n)
		case n > 0 && p.mayLocked(c):
			t.Fatalf("%v waits with %d turns, %d in use of %d", who, c.turns, l.turns, p.config.MaxConnections)
		case p.config.MaxPerClient > 0 && who.IsValid() && c.turns > p.config.MaxPerClient:
			t.Fatalf("%v has %d turns", who, c.turns)
		}
		if n > 0 {
			ring++
		}
	}
	n := 0
	for c := l.next; c != nil && (n == 0 || c != l.next); c = c.next {
		n++
	}
	if turns != l.turns || waiting != l.len || ring != l.ring || n != ring {
		t.Fatalf("%d turns, counted %d; %d wait, counted %d; %d in the ring, %d clients wait, counted %d", turns, l.turns, waiting, l.len, n, ring, l.ring)
	}
}

// Whatever callers and servers do: never more connections than may be, none with two
// owners, nobody waits while there is room, and nothing is left at the end.
func TestInvariants(t *testing.T) {
	var outcomes [5]atomic.Int64
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { anyHistory(t, seed, &outcomes) })
		})
	}
	for i := range outcomes {
		if n := outcomes[i].Load(); n < 100 {
			t.Errorf("outcome %d came %d times", i, n)
		}
	}
}

func anyHistory(t *testing.T, seed uint64, outcomes *[5]atomic.Int64) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, down: map[string]bool{}}
	w.delay = func() time.Duration { return time.Duration(rand.N(20)) * time.Millisecond }
	c := Config{
		Servers: servers(1 + r.IntN(4)), MaxConnections: 1 + r.IntN(6), MaxPerClient: max(0, r.IntN(8)-4), MaxQueue: 1 + r.IntN(8), QueueTimeout: 30 * time.Millisecond,
		KeepAlive: 80 * time.Millisecond, ConnectTimeout: 15 * time.Millisecond, dial: w.dial,
	}
	p := newPool(t, c)
	done := make(chan struct{})
	const callers = 12
	for i := range uint64(callers) {
		go func() {
			defer func() { done <- struct{}{} }()
			r := rand.New(rand.NewPCG(seed, 2+i))
			for range 60 {
				caller(t, p, r, outcomes)
			}
		}()
	}
	for range 200 {
		time.Sleep(time.Duration(1+r.IntN(10)) * time.Millisecond)
		synctest.Wait()
		check(t, p, w)
		w.mu.Lock()
		w.down[c.Servers[r.IntN(len(c.Servers))].Address] = r.IntN(3) == 0
		w.mu.Unlock()
	}
	for range callers {
		<-done
	}
	p.Close()
	synctest.Wait()
	if n := w.open.Load(); n != 0 || p.open != 0 || p.line.len != 0 || len(p.line.clients) != 0 {
		t.Errorf("%d connections left, %d counted, %d in line, %d clients", n, p.open, p.line.len, len(p.line.clients))
	}
	if _, err := p.Get(netip.Addr{}, nil, false); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// caller makes one request.
func caller(t *testing.T, p *Pool, r *rand.Rand, outcomes *[5]atomic.Int64) {
	time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
	var cancel chan struct{}
	if r.IntN(3) == 0 {
		cancel = make(chan struct{})
		timer := time.AfterFunc(time.Duration(r.IntN(20))*time.Millisecond, func() { close(cancel) })
		defer timer.Stop()
	}
	fresh := r.IntN(5) == 0
	var who netip.Addr
	if n := r.IntN(5); n > 0 {
		who = netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})
	}
	c, err := p.Get(who, waits(cancel), fresh)
	var dial *DialError
	switch {
	case errors.Is(err, ErrQueueFull):
		outcomes[0].Add(1)
	case errors.Is(err, ErrQueueTimeout):
		outcomes[1].Add(1)
	case errors.Is(err, ErrCanceled) && cancel != nil:
		outcomes[2].Add(1)
	case errors.As(err, &dial):
		outcomes[3].Add(1)
	case err != nil:
		t.Errorf("Get: %v", err)
	default:
		outcomes[4].Add(1)
		nc := c.NetConn().(*counted)
		if nc.owned.Swap(true) {
			t.Error("two owners")
		}
		if nc.closed.Load() {
			t.Error("closed already")
		}
		if fresh && c.Reused() {
			t.Error("not fresh")
		}
		time.Sleep(time.Duration(r.IntN(15)) * time.Millisecond)
		if r.IntN(8) == 0 {
			c.Healthy()
		}
		if r.IntN(12) == 0 {
			c.Interrupt()
		}
		nc.owned.Store(false)
		if n := r.IntN(8); n < 3 {
			p.Discard(c, Outcome(n)) // below 3
		} else {
			p.Put(c)
		}
	}
}

// First come, first served, whether a connection, room or another's leaving makes it possible; a request that
// has left is not served.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(1), MaxConnections: 2, MaxQueue: 5, QueueTimeout: time.Second, dial: w.dial})
		a, b := mustGet(t, p), mustGet(t, p)
		type result struct {
			who int
			c   *Conn
			err error
		}
		results := make(chan result, 10)
		var cancels [7]chan struct{}
		for i := range cancels {
			cancels[i] = make(chan struct{})
			go func() {
				c, err := p.Get(netip.Addr{}, waits(cancels[i]), i == 2)
				results <- result{i, c, err}
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		expect := func(who int, err error) *Conn {
			t.Helper()
			synctest.Wait()
			got := <-results
			if got.who != who || !errors.Is(got.err, err) {
				t.Errorf("%d got %v, %v; want %d with %v", got.who, got.c, got.err, who, err)
			}
			return got.c
		}
		expect(5, ErrQueueFull)
		expect(6, ErrQueueFull)
		close(cancels[1])
		expect(1, ErrCanceled)
		p.Put(a)
		c0 := expect(0, nil)
		if c0 != a {
			t.Error("the connection was not handed over")
		}
		p.Put(b)
		c2 := expect(2, nil) // which wants a fresh one
		if c2 == b || c2.Reused() {
			t.Error("not fresh")
		}
		p.Discard(c0, Fine)
		c3 := expect(3, nil)
		time.Sleep(time.Second)
		expect(4, ErrQueueTimeout)
		p.Put(c2)
		p.Put(c3)
		check(t, p, w)
		if s := p.Stats(); s.Served != 3 || s.Full != 2 || s.Left != 1 || s.TimedOut != 1 || s.Queue != 0 {
			t.Errorf("stats %+v", s)
		}
		p.Close()
	})
}

// Nothing but EOF comes from connections that only count.
func (c *counted) Read([]byte) (int, error) { return 0, io.EOF }

// SetReadDeadline implements net.Conn.
func (c *counted) SetReadDeadline(time.Time) error { return nil }
