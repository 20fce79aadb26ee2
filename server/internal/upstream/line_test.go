package upstream

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func address(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)}) }

// hold has a client make requests that are not answered, and returns how many of them have a
// connection, and how many of the others wait.
func hold(p *Pool, who netip.Addr, requests int, held *[]*Conn) (have, wait int) {
	got := make(chan *Conn, requests)
	ended := make(chan error, requests)
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if c, err := p.Get(who, nil, false); err != nil {
				ended <- err
			} else {
				got <- c
			}
		})
	}
	synctest.Wait()
	for have = len(got); len(got) > 0; {
		*held = append(*held, <-got)
	}
	go func() { all.Wait(); close(got) }()
	go func() {
		for c := range got {
			p.Put(c)
		}
	}()
	return have, requests - have - len(ended)
}

// However many requests clients make that are never answered, the next client is served at
// once while they are few, and in turn with them when they are many.
func TestOthersAreServed(t *testing.T) {
	for _, tt := range []struct {
		clients, requests int
		have, wait        int // of the first one, which finds all
	}{
		{1, 2000, 80, 1024}, {2, 2000, 80, 1024}, {20, 100, 80, 20}, {200, 10, 10, 0}, {1, 50, 50, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t}
			p := newPool(t, Config{Servers: servers(2), MaxConnections: 100, QueueTimeout: time.Hour, dial: w.dial})
			defer p.Close()
			var held []*Conn
			for i := range tt.clients {
				have, wait := hold(p, address(i), tt.requests, &held)
				if i == 0 && (have != tt.have || wait != tt.wait) {
					t.Errorf("%d clients: the first one has %d connections, %d wait", tt.clients, have, wait)
				}
			}
			check(t, p, w)
			served := make(chan *Conn)
			for range 50 {
				go func() {
					c, err := p.Get(address(1000), nil, false)
					if err != nil {
						t.Errorf("%d clients: %v", tt.clients, err)
					}
					served <- c
				}()
				synctest.Wait()
				for n := 0; ; n++ { // others end
					select {
					case c := <-served:
						p.Put(c)
					default:
						if n > tt.clients {
							t.Fatalf("%d clients: the next one waits while %d others have their turn", tt.clients, n)
						}
						p.Put(held[0])
						held = held[1:]
						synctest.Wait()
						continue
					}
					break
				}
				synctest.Wait()
			}
			for _, c := range held {
				p.Put(c)
			}
		})
	}
}

// A setting replaces the share; unknown clients have none.
func TestMaxPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(1), MaxConnections: 10, MaxPerClient: 3, MaxQueue: 100, QueueTimeout: time.Second, dial: w.dial})
		var held []*Conn
		if have, wait := hold(p, address(1), 5, &held); have != 3 || wait != 2 {
			t.Errorf("%d, %d wait", have, wait)
		}
		if have, wait := hold(p, netip.Addr{}, 9, &held); have != 7 || wait != 2 {
			t.Errorf("not known: %d, %d wait", have, wait)
		}
		check(t, p, w)
		time.Sleep(2 * time.Second)
		for _, c := range held {
			p.Put(c)
		}
		check(t, p, w)
		if s := p.Stats(); s.TimedOut != 4 || s.Queue != 0 {
			t.Errorf("%+v", s)
		}
		p.Close()
	})
}

// One client does not fill the line.
func TestLineIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := newPool(t, Config{Servers: servers(1), MaxConnections: 1, MaxQueue: 11, QueueTimeout: time.Second, dial: w.dial})
		var held []*Conn
		if have, wait := hold(p, address(1), 50, &held); have != 1 || wait != 11 {
			t.Errorf("%d, %d wait", have, wait)
		}
		order := make(chan int, 10)
		for i := range 3 {
			go func() {
				c, err := p.Get(address(2+i), nil, false)
				if err != nil {
					t.Error(err)
				}
				order <- i
				p.Put(c)
			}()
			synctest.Wait()
		}
		if l := &p.line; l.len != 11 || l.clients[address(1)].waiting != 8 || l.full != 38+3 {
			t.Errorf("%d wait, %d of the first client, %d were sent away", l.len, l.clients[address(1)].waiting, l.full)
		}
		if _, err := p.Get(address(1), nil, false); !errors.Is(err, ErrQueueFull) {
			t.Errorf("one more of the first: %v", err)
		}
		check(t, p, w)
		p.Put(held[0])
		synctest.Wait()
		for i := range 3 {
			if got := <-order; got != i {
				t.Errorf("%d is served in place of %d", got, i)
			}
		}
		p.Close()
	})
}
