package upstream

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// within wants an error of time between a timeout and 9/8 of it, and the look before.
func within(t *testing.T, what string, start time.Time, timeout time.Duration, err error) {
	t.Helper()
	wantIO(t, err, IOError{Timeout: true, Answered: what != "silence"})
	if took := time.Since(start); took < timeout || took > timeout+timeout/8+shortWait {
		t.Errorf("%s: gave up after %v, want %v", what, took, timeout)
	}
}

// How long a server may take: to the head in all, however slowly it comes; between pieces
// behind that; and longer while a request is still being written.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		dial := func(context.Context, string, string) (net.Conn, error) { return here, nil }
		c := Config{Servers: servers(1), ResponseTimeout: 8 * time.Second, IdleTimeout: 40 * time.Second, WriteTimeout: 4 * time.Second, dial: dial}
		p := newPool(t, c)
		say := make(chan time.Duration, 100) // the server says a byte after each pause
		go func() {
			for pause := range say {
				time.Sleep(pause)
				if _, err := there.Write([]byte("x")); err != nil {
					return
				}
			}
		}()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		nc, into := mustGet(t, p), make([]byte, 10)

		start := time.Now()
		_, err := nc.Ask([]byte("request"), into)
		within(t, "silence", start, c.ResponseTimeout, err)

		nc.heading = false
		start = time.Now()
		for range 20 {
			say <- 3 * time.Second
		}
		if _, err = nc.Ask([]byte("request"), into); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = nc.AwaitHead(into)
		}
		within(t, "a head in pieces", start, c.ResponseTimeout, err)

		for synctest.Wait(); len(say) > 0; synctest.Wait() { // a body in pieces
			if _, err := nc.Read(into); err != nil {
				t.Fatal(err)
			}
		}
		say <- 39 * time.Second
		for range 2 { // one is on its way
			if _, err := nc.Read(into); err != nil {
				t.Fatal(err)
			}
		}
		start = time.Now()
		_, err = nc.Read(into)
		within(t, "a body", start, c.IdleTimeout, err)

		// The longer time of a body is not that of the next head.
		say <- time.Second
		if _, err := nc.Read(into); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		_, err = nc.Ask([]byte("request"), into)
		within(t, "a second head", start, c.ResponseTimeout, err)
		nc.heading = false

		// A body that is written for longer than the answer may take.
		start = time.Now()
		go func() {
			for range 10 {
				time.Sleep(3 * time.Second)
				if _, err := nc.Write([]byte("piece")); err != nil {
					t.Error(err)
				}
			}
		}()
		_, err = nc.AwaitHead(into)
		within(t, "an upload", start.Add(30*time.Second), c.ResponseTimeout, err)
		p.Discard(nc, Failed)
		close(say)
		there.Close()
		p.Close()
	})
}

// A write has its timeout without progress, and does not end sooner for being long.
func TestSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		dial := func(context.Context, string, string) (net.Conn, error) { return here, nil }
		p := newPool(t, Config{Servers: servers(1), WriteTimeout: 8 * time.Second, dial: dial})
		const pieces = 20
		go func() {
			for range pieces {
				time.Sleep(7 * time.Second)
				_, _ = io.ReadFull(there, make([]byte, maxPiece))
			}
		}()
		c, start := mustGet(t, p), time.Now()
		if n, err := c.Write(make([]byte, pieces*maxPiece)); n != pieces*maxPiece || err != nil {
			t.Fatalf("%d, %v after %v", n, err, time.Since(start))
		}
		start = time.Now()
		_, err := c.Write([]byte("x"))
		within(t, "silence", start, 8*time.Second, err)
		p.Discard(c, Failed)
		there.Close()
		p.Close()
	})
}

// Requests in quick succession share a deadline, and none allocates.
func TestHotPath(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		p := newPool(t, Config{Servers: []Server{newOrigin(t, network, echo).server()}})
		request, into := []byte("request"), make([]byte, 100)
		begin, set, last := time.Now(), 0, time.Time{}
		ask := func() {
			c, err := p.Get(netip.Addr{}, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := c.Ask(request, into); n != len(request) || err != nil {
				t.Fatal(n, err)
			}
			if c.readBy != last {
				set, last = set+1, c.readBy
			}
			if !c.writeBy.IsZero() {
				t.Fatal("a write has set a deadline")
			}
			p.Put(c)
		}
		if allocs := testing.AllocsPerRun(1000, ask); allocs != 0 && !racing {
			t.Errorf("%s: %v allocations", network, allocs)
		}
		if most := 1 + int(time.Since(begin)/(DefaultResponseTimeout/8)); set > most {
			t.Errorf("%s: %d deadlines, want %d", network, set, most)
		}
	}
}

// Waiting requests are sent away when the pool closes, and lent connections are closed when they come back.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(1), MaxConnections: 2, dial: w.dial})
		a, b := mustGet(t, p), mustGet(t, p)
		errs := make(chan error, 3)
		for range 3 {
			go func() { _, err := p.Get(netip.Addr{}, nil, false); errs <- err }()
		}
		synctest.Wait()
		p.Close()
		p.Close()
		for range 3 {
			if err := <-errs; err != ErrClosed { //nolint:errorlint // as it is documented
				t.Error(err)
			}
		}
		p.Put(a)
		p.Discard(b, Fine)
		check(t, p, w)
		if n := w.open.Load(); n != 0 {
			t.Errorf("%d open", n)
		}
	})
}

// A connection that is returned twice would serve two.
func TestReturnedTwice(t *testing.T) {
	p := newPool(t, Config{Servers: servers(1), dial: (&world{t: t}).dial})
	c := mustGet(t, p)
	p.Put(c)
	defer func() {
		p.mu.Unlock()
		if recover() == nil {
			t.Error("nobody noticed")
		}
	}()
	p.Put(c)
}
