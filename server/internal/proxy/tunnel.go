package proxy

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// tunnel passes bytes both ways after the upstream has switched protocols, until the upstream ends, or the
// client and then the upstream. The connection ends with it. The connection's goroutine passes on what the
// upstream sends, another one what the client sends.
type tunnel struct {
	c    conn.Relay
	up   *upstream.Conn
	half atomic.Bool // the client has ended its half
}

// lastBytes is how long an upstream may keep sending when the connection has to end.
const lastBytes = time.Second

func (x *exchange) tunnel(dst []byte) (out []byte) {
	x.p.counts.tunnels.Add(1)
	defer x.p.counts.tunnels.Add(-1)
	x.up.Healthy()
	out = x.hide(x.p.appendResponse(dst, &x.resp, noBody, nil, false), len(dst))
	out = append(out, x.buf[x.start:x.end]...)
	if _, err := x.c.Send(out); err != nil {
		out, _ = x.gone(out)
		return out
	}
	_ = x.up.NetConn().SetReadDeadline(time.Time{})
	t := &tunnel{c: x.c, up: x.up}
	x.c.Ask(t)
	x.c.Tunneling()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.toUpstream()
	}()
	x.logged.bytes = t.toClient(x.buf)
	x.c.StopReceiving()
	<-done
	x.letGo(upstream.Fine)
	return out[:0]
}

// Interrupt implements [conn.Interrupter]: the connection has to end.
func (t *tunnel) Interrupt() {
	if t.half.Load() {
		_ = t.up.NetConn().SetReadDeadline(time.Now().Add(lastBytes))
	}
	t.c.StopReceiving()
}

// toClient passes on what the upstream sends, and returns how much that was.
func (t *tunnel) toClient(buf []byte) (total int64) {
	from := t.up.NetConn()
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, failed := t.c.Send(buf[:n]); failed != nil {
				return total
			}
			total += int64(n)
			t.c.Tunneling()
		}
		if err != nil {
			return total
		}
	}
}

// toUpstream passes on what the client sends, including its end.
func (t *tunnel) toUpstream() {
	buf := make([]byte, readBuffer)
	for {
		n, err := t.c.Fill(buf)
		if n > 0 {
			t.c.Tunneling()
			if _, failed := t.up.Write(buf[:n]); failed != nil {
				_ = t.up.NetConn().SetReadDeadline(time.Now())
				return
			}
			continue
		}
		to := t.up.NetConn()
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		t.half.Store(true)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // the connection has to end, or is broken
			_ = to.SetReadDeadline(time.Now().Add(lastBytes))
		}
		return
	}
}
