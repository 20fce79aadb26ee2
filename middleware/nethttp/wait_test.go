package nethttp

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
)

// Requests wait where their rule lets them: one whose client hangs up loses its place,
// and StopWaiting denies the others.
func TestWait(t *testing.T) {
	t.Parallel()
	lim, err := fastlimit.New(fastlimit.Config{Memory: limit.MinMemory, Rules: []fastlimit.RuleConfig{{
		Name: "a", Rate: fastlimit.Rate{N: 20, Per: time.Hour}, Burst: 1, Strict: true, MaxWait: time.Hour,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	rule := lim.Rules()[0]
	m, err := New(Config{Limits: []Limit{{Rule: rule}}})
	if err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	srv := httptest.NewServer(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) })))
	t.Cleanup(srv.Close)
	until := func(what string, ok func(fastlimit.WaitStats) bool) {
		t.Helper()
		for range 10_000 {
			if ok(rule.Stats().Waits) {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("%s: %+v", what, rule.Stats().Waits)
	}
	statuses := make(chan int, 3)
	get := func() {
		resp, err := http.Get(srv.URL)
		if err != nil {
			t.Error(err)
			statuses <- 0
			return
		}
		resp.Body.Close()
		statuses <- resp.StatusCode
	}
	if get(); <-statuses != http.StatusOK {
		t.Fatal("the first request is denied")
	}
	gone, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(gone, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	until("one waits", func(s fastlimit.WaitStats) bool { return s.Waiting == 1 })
	go get()
	go get()
	until("three wait", func(s fastlimit.WaitStats) bool { return s.Waiting == 3 })
	gone.Close()
	until("one has left", func(s fastlimit.WaitStats) bool { return s.Waiting == 2 && s.Left == 1 })
	lim.StopWaiting()
	for range 2 {
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("status %d after StopWaiting", status)
		}
	}
	if handled.Load() != 1 {
		t.Errorf("%d requests were handled, want 1", handled.Load())
	}
}
