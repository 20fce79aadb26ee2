// The race detector makes sync.Pool drop items, so that everything allocates.

//go:build !race

package nethttp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
)

// A decision does not allocate, but for what net/http asks of a denial.
func TestDecisionDoesNotAllocate(t *testing.T) {
	rules := middlewaretest.Rules(t, 1<<28, 1<<28)
	m, err := New(Config{
		Limits:  []Limit{{Rule: rules[0]}, {Rule: rules[1], Cost: func(*http.Request) uint64 { return 2 }}},
		Clients: middlewaretest.Clients(t, "10.0.0.0/8", 0),
		OnAllow: func(http.ResponseWriter, *http.Request, *Verdict) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 10.0.0.2")
	w := httptest.NewRecorder()
	if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
