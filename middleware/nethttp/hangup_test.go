package nethttp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/memstore"
	"github.com/fastlimit/fastlimit/limit"
)

// gate is a store that carries nothing out before it is opened.
type gate struct {
	*memstore.Store
	asked chan struct{} // one for each operation
	open  chan struct{}
}

func (g *gate) Submit(op *bucket.Op) error {
	g.asked <- struct{}{}
	go func() {
		<-g.open
		if err := g.Store.Submit(op); err != nil {
			op.Done(op, bucket.Reply{}, err)
		}
	}()
	return nil
}

// Clients that hang up while the store is asked are not passed on to the
// handler, whatever the failure policy, and take nothing from those who stay.
func TestHangUpIsNoWayIn(t *testing.T) {
	t.Parallel()
	for _, policy := range []fastlimit.OnFailure{fastlimit.FailOpen, fastlimit.FailLocal, fastlimit.FailClosed} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			hangUpIsNoWayIn(t, policy)
		})
	}
}

func hangUpIsNoWayIn(t *testing.T, policy fastlimit.OnFailure) {
	const clients, burst = 30, 3
	g := &gate{Store: memstore.New(memstore.Config{}), asked: make(chan struct{}, 10*clients), open: make(chan struct{})}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	lim, err := fastlimit.New(fastlimit.Config{
		Memory: limit.MinMemory, Store: g, StoreTimeout: time.Minute,
		Rules: []fastlimit.RuleConfig{{
			Name: "a", Rate: fastlimit.Rate{N: 1, Per: 24 * time.Hour}, Burst: burst, Strict: true, OnFailure: policy,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rule := lim.Rules()[0]
	m, err := New(Config{Limits: []Limit{{Rule: rule, Key: func(r *http.Request) (fastlimit.Key, bool) {
		return rule.BytesKey([]byte(r.URL.Path)), true
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	inner := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) }))
	ended := make(chan struct{}, clients)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		ended <- struct{}{}
	}))
	t.Cleanup(srv.Close)

	// Each has a bucket of its own, so that each is on its way when it hangs up.
	for i := range clients {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("GET /" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		<-g.asked
		_ = c.Close()
		<-ended
	}
	if n := handled.Load(); n != 0 {
		t.Fatalf("%d of %d requests were handled whose clients had hung up", n, clients)
	}
	if s := rule.Stats(); s.Denied[fastlimit.StageExact] != clients || s.Denied[fastlimit.StageFallback]+s.Allowed[fastlimit.StageFallback] != 0 {
		t.Fatalf("denied %v, allowed %v by stage: want %d denied by none but their leaving", s.Denied, s.Allowed, clients)
	}
	close(g.open)
	for range clients { // what was granted is given back
		<-g.asked
	}
	for range burst {
		resp, err := http.Get(srv.URL + "/aa")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("who stays got %d", resp.StatusCode)
		}
	}
}
