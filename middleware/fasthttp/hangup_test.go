package fasthttplimit

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/internal/testkit/redistest"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/valyala/fasthttp"
)

// heldStore is a store that carries nothing out before it is opened.
type heldStore struct {
	*memstore.Store
	open chan struct{}
}

func (g *heldStore) Submit(op *bucket.Op) error {
	go func() {
		<-g.open
		if err := g.Store.Submit(op); err != nil {
			op.Done(op, bucket.Reply{}, err)
		}
	}()
	return nil
}

// fasthttp does not notice that a client hangs up. Such a client is judged and
// charged as one that stays: it gets its burst, whatever the failure policy.
func TestHangUpIsCharged(t *testing.T) {
	t.Parallel()
	const clients, burst = 30, 3
	g := &heldStore{Store: memstore.New(memstore.Config{}), open: make(chan struct{})}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	lim, err := fastlimit.New(fastlimit.Config{
		Memory: limit.MinMemory, Store: g, StoreTimeout: time.Minute,
		Rules: []fastlimit.RuleConfig{{
			Name: "a", Rate: fastlimit.Rate{N: 1, Per: 24 * time.Hour}, Burst: burst, Strict: true, OnFailure: fastlimit.FailOpen,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Limits: []Limit{{Rule: lim.Rules()[0]}}})
	if err != nil {
		t.Fatal(err)
	}
	var begun, handled, ended atomic.Int64
	inner := m.Wrap(func(*fasthttp.RequestCtx) { handled.Add(1) })
	srv := &fasthttp.Server{MaxIdleWorkerDuration: 100 * time.Millisecond, Handler: func(ctx *fasthttp.RequestCtx) {
		begun.Add(1)
		inner(ctx)
		ended.Add(1)
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Shutdown() })
	for range clients {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	redistest.Eventually(t, "all requests are read", func() bool { return begun.Load() == clients })
	close(g.open)
	redistest.Eventually(t, "all requests are decided", func() bool { return ended.Load() == clients })
	if n := handled.Load(); n != burst {
		t.Errorf("%d requests of clients that had hung up were handled, want the burst of %d", n, burst)
	}
}
