package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// keepAlive is a client in a closed loop. A request that it has sent before it
// saw the end of the connection must be answered in full.
type keepAlive struct {
	addr            string
	think           time.Duration // before each request but the first of a connection
	answered, fresh atomic.Int64
	lost            atomic.Int64
	first           atomic.Pointer[error] // why the first was lost
}

// run asks until nobody accepts any more.
func (k *keepAlive) run(t *testing.T, source string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: hang}
	for {
		conn, err := d.DialContext(t.Context(), "tcp", k.addr)
		if err != nil {
			return // refused: it has stopped
		}
		k.fresh.Add(1)
		k.use(conn)
		conn.Close()
	}
}

func (k *keepAlive) use(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(hang))
	br := bufio.NewReader(conn)
	for first := true; ; first = false {
		if !first && k.think > 0 {
			// The end of the connection comes in a pause, or not at all.
			_ = conn.SetReadDeadline(time.Now().Add(k.think))
			if _, err := br.Peek(1); !isTimeout(err) {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(hang))
		}
		if _, err := io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			k.lose(fmt.Errorf("request %v of a connection: %w", first, err))
			return
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			k.lose(fmt.Errorf("first %v: %w", first, err))
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			k.lose(err)
			return
		}
		k.answered.Add(1)
		if resp.Close {
			return
		}
	}
}

func (k *keepAlive) lose(err error) {
	k.lost.Add(1)
	k.first.CompareAndSwap(nil, &err)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// SIGTERM under load loses no request: neither of those in a closed loop, who
// are told to connect anew, nor of those who pause, nor of those that are just
// connecting when the listener closes. Again and again, also without a delay.
func TestTermLosesNothing(t *testing.T) {
	severalPrograms(t)
	t.Parallel()
	for i := range testkit.Size(8, 20) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			args := []string{"--rate", "1000000/s", "--burst", "1000000"}
			if i%4 > 0 { // else the default
				args = append(args, "--drain-delay", [...]string{"", "0s", "20ms", "300ms"}[i%4])
			}
			p := serve(t, args...)
			k, pausing := &keepAlive{addr: p.listen}, &keepAlive{addr: p.listen, think: 100 * time.Millisecond}
			var all sync.WaitGroup
			for n := range 16 {
				all.Go(func() { k.run(t, fmt.Sprintf("127.0.0.%d", n+1)) })
				all.Go(func() { pausing.run(t, fmt.Sprintf("127.0.1.%d", n+1)) })
			}
			for k.answered.Load() < 500 || pausing.answered.Load() < 16 {
				time.Sleep(time.Millisecond)
			}
			p.signal(syscall.SIGTERM)
			all.Wait()
			if code := p.wait(); code != 0 {
				t.Errorf("exit %d", code)
			}
			for _, c := range []*keepAlive{k, pausing} {
				if n := c.lost.Load(); n > 0 {
					t.Errorf("%d of %d requests on %d connections were lost; %v", n, n+c.answered.Load(), c.fresh.Load(), *c.first.Load())
				}
			}
			t.Logf("%d and %d requests, %d and %d connections", k.answered.Load(), pausing.answered.Load(), k.fresh.Load(), pausing.fresh.Load())
		})
	}
}
