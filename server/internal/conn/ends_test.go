//go:build linux && (amd64 || arm64)

package conn

import (
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

var ends = flag.Int("ends", testkit.Size(1600, 8000), "connections that TestEveryEnd makes")

// everyEnd is a server of three listeners, all of whose connections end.
type everyEnd struct {
	*ways
	plain, proxied, secure string // addresses
	listeners              []*Listener
	client                 *tls.Config
	most                   int // connections with a place
	first                  int // way
}

// However a connection ends, each is counted once, nobody exceeds the limits, and no descriptor, slot or
// goroutine is left. Some servers drain in the middle of it.
func TestEveryEnd(t *testing.T) { // not parallel: it counts those of the process
	server, client := tlsPair(t)
	const round = 20 * ways20
	for n := 0; n < *ends && !t.Failed(); n += round {
		drains := n/round%4 == 3
		t.Run("", func(t *testing.T) {
			descriptors, goroutines := openNow(t), runtime.NumGoroutine()
			e := &everyEnd{most: 48, first: n / round, client: client}
			e.start(t, server)
			e.run(t, round, drains)
			eventually(t, func() bool { return openNow(t) <= descriptors && runtime.NumGoroutine() <= goroutines })
		})
	}
}

func openNow(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func (e *everyEnd) start(t *testing.T, server *tls.Config) {
	e.ways = &ways{Conns: New(Limits{
		Head: time.Hour, Write: time.Hour, Idle: time.Hour, HeadBytes: 32 << 10, Max: e.most, PerClient: e.most - 8,
	}, discard)}
	for at, o := range map[*string]Options{
		&e.plain:   {},
		&e.proxied: {Proxied: func(netip.Addr) bool { return true }},
		&e.secure:  {TLS: server},
	} {
		e.listen(t, o, e.atDoors())()
		*at, e.listeners = e.addr, append(e.listeners, e.listener)
	}
}

// run makes n connections and has all end, then the server.
func (e *everyEnd) run(t *testing.T, n int, drains bool) {
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		e.watchOver(t, stop)
	}()
	var clients, dialed sync.WaitGroup
	const workers, late = 8, 4
	dialed.Add(workers)
	for worker := range workers {
		clients.Go(func() {
			i := worker
			for ; i < n-workers*late; i += workers {
				e.end(e.dial(t, i), i)
			}
			var last []*net.TCPConn // whose ends come while the server drains
			for j := range late {
				last = append(last, e.dial(t, i+workers*j))
			}
			dialed.Done()
			if dialed.Wait(); drains && worker == 0 {
				clients.Go(func() { e.drain(t) })
			}
			for j, c := range last {
				e.end(c, i+workers*j)
			}
		})
	}
	clients.Wait()
	close(stop)
	<-watched
	e.drain(t)
	atDoor, kept := e.Accepted()
	refused := e.Rejected()["full"] + e.Rejected()["client"]
	if got := atDoor + kept + refused; got != uint64(n) || atDoor == 0 || kept == 0 {
		t.Errorf("%d at the door, %d kept, %d refused: %d of %d", atDoor, kept, refused, got, n)
	}
	if n := len(e.peers); n > 0 {
		t.Errorf("%d clients are remembered", n)
	}
	e.Conns.Close()
	if n := len(e.poller.calls); n > 0 {
		t.Errorf("%d are watched", n)
	}
}

// watchOver sees that the limit holds, has some park, resets those of banned clients, and has
// ticks pass.
func (e *everyEnd) watchOver(t *testing.T, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		all := 0
		e.each(func(c *Conn) {
			if all++; i%2 == 0 && c.phase().waiting() {
				e.orderPark(c)
			}
		})
		if all > e.most {
			t.Errorf("%d have a place, of %d", all, e.most)
			return
		}
		e.Reset(netip.MustParsePrefix(banned + "/32"))
		if i%100 == 0 {
			e.pass(1)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// drain ends the server as a stop does. It may be called again.
func (e *everyEnd) drain(t *testing.T) {
	e.LastAnswers()
	for _, l := range e.listeners {
		l.Drain()
	}
	for _, l := range e.listeners {
		l.Close(time.Now().Add(time.Minute))
	}
	eventually(t, func() bool { return e.DismissQuiet(true) == 0 })
}

// ways20 is how many ends there are.
const ways20 = 20

// way is how connection i ends: all ways within any 20 of a worker's.
func (e *everyEnd) way(i int) int { return (e.first + i%8*5 + i/8) % ways20 }

// dial makes connection i. It returns nil if that has been reset already.
func (e *everyEnd) dial(t *testing.T, i int) *net.TCPConn {
	addr, source := e.plain, "127.0.0.2"
	switch way := e.way(i); {
	case way >= 17:
		addr = e.secure
	case way >= 14:
		addr = e.proxied
	case way == 13:
		source = banned
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	nc, err := d.Dial("tcp", addr)
	if err != nil {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		return nil
	}
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	return nc.(*net.TCPConn)
}

// end ends connection i in one of some ways. A client's own end may come before that, as it has to
// make room, or as the server ends.
func (e *everyEnd) end(c *net.TCPConn, i int) {
	if c == nil {
		return
	}
	defer c.Close()
	const keep, deny = "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /deny HTTP/1.1\r\nHost: a\r\n\r\n"
	ask := func(s string) { _, _ = io.WriteString(c, s) }
	some := func() { _, _ = c.Read(make([]byte, 100)) }
	rest := func() { _, _ = io.Copy(io.Discard, c) }
	switch e.way(i) {
	case 0: // a request and a look at the answer
		ask(closing("/1"))
		rest()
	case 1: // no look
		ask(closing("/1"))
	case 2: // a reset behind the request
		ask(closing("/1"))
		_ = c.SetLinger(0)
	case 3: // a half-close
		ask(closing("/1"))
		_ = c.CloseWrite()
		rest()
	case 4: // silence
	case 5: // a reset at once
		_ = c.SetLinger(0)
	case 6: // half a head
		ask("GET / HTTP/1.1\r\nHo")
	case 7: // kept, and closed
		ask(keep)
		some()
	case 8: // not for the door
		ask(closing("/later"))
		rest()
	case 9: // reset there
		ask(closing("/reset"))
		rest()
	case 10: // denied, and closed
		ask(deny)
		some()
	case 11: // denied twice
		ask(deny)
		some()
		ask("GET /deny HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		rest()
	case 12: // many at once, then for fasthttp
		ask(strings.Repeat(keep, 20) + closing("/odd"))
		rest()
	case 13: // until it is banned
		ask(keep)
		rest()
	case 14: // behind a PROXY header
		ask("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + closing("/1"))
		rest()
	case 15: // half of one
		ask("PROXY TCP4 192.0.")
	case 16: // none
		ask(keep)
		rest()
	case 17: // TLS
		s := tls.Client(c, e.client)
		_, _ = io.WriteString(s, closing("/1"))
		_, _ = io.Copy(io.Discard, s)
	case 18: // the handshake alone, and a reset
		_ = tls.Client(c, e.client).Handshake()
		_ = c.SetLinger(0)
	case 19: // the beginning of a handshake
		ask("\x16\x03\x01\x02")
	}
}
