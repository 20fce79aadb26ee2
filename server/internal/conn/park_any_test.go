//go:build linux && (amd64 || arm64)

package conn

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit"
)

// Whenever connections are ordered to park, each request gets its answer: from residents or, for odd targets,
// from a relay, which gives back what it has read after them.
func TestParkedAtAnyPoint(t *testing.T) {
	t.Parallel()
	for name, targets := range map[string][]string{"residents": {simple}, "relay": {simple, oddOne}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, accept := newWays(t)
			w.listener.relay = relayOne
			accept()
			var clients sync.WaitGroup
			for i := range 8 {
				clients.Go(func() { askAlways(t, w.addr, rand.New(rand.NewPCG(1, uint64(i))), targets) })
			}
			stop, times := make(chan struct{}), make(chan int)
			go func() {
				all := 0
				for i := 0; ; i++ {
					select {
					case <-stop:
						times <- all
						return
					default:
					}
					w.each(func(c *Conn) {
						if c.phase() == idle {
							w.orderPark(c)
						}
					})
					all += w.parkedNow()
					time.Sleep(time.Duration(i%5) * 20 * time.Microsecond)
				}
			}()
			clients.Wait()
			close(stop)
			if <-times == 0 {
				t.Error("none was parked")
			}
			w.pass(2 * ticks)
			w.LastAnswers()
			w.DismissQuiet(true)
			eventually(t, func() bool { return w.Open() == 0 })
		})
	}
}

const oddOne = "GET /odd HTTP/1.1\r\nHost: a\r\n\r\n"

// askAlways asks for some of the targets at once, in two pieces, again and again.
func askAlways(t *testing.T, addr string, random *rand.Rand, targets []string) {
	nc := dialFrom(t, "127.0.0.1", addr)
	_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
	br := bufio.NewReader(nc)
	var answers atomic.Int32
	for range testkit.Size(500, 20000) {
		many, stream := 1+random.IntN(4), ""
		for range many {
			stream += targets[random.IntN(len(targets))]
		}
		first := random.IntN(len(stream)/len(simple)) * len(simple)
		io.WriteString(nc, stream[:first])
		io.WriteString(nc, stream[first:])
		if !answered(br, many, &answers) {
			t.Error("a request has no answer")
			return
		}
		if random.IntN(2) > 0 {
			time.Sleep(time.Duration(random.IntN(200)) * time.Microsecond)
		}
	}
}

// relayOne answers one request, as a relay does, and gives back what has come behind it.
func relayOne(cn *Conn) (more bool) {
	c := Relay{cn}
	buf, read := make([]byte, 4096), 0
	for {
		n, _ := c.Fill(buf[read:])
		if n == 0 {
			return false
		}
		read += n
		head := bytes.Index(buf[:read], []byte("\r\n\r\n"))
		if head < 0 {
			continue
		}
		c.Note(false, false)
		c.BeginRequest()
		last := c.LastRequest()
		if _, err := c.Send([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil || last {
			return false
		}
		if end := head + 4; end < read {
			c.Unread(bytes.Clone(buf[end:read]))
		}
		c.EndAnswer()
		return true
	}
}
