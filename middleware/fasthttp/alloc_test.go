// The race detector makes sync.Pool drop items, so that everything allocates.

//go:build !race

package fasthttplimit

import (
	"net"
	"testing"

	"github.com/fastlimit/fastlimit/internal/testkit/middlewaretest"
	"github.com/valyala/fasthttp"
)

// Neither an admission nor a denial allocates, with one rule or several.
func TestDecisionDoesNotAllocate(t *testing.T) {
	rules := middlewaretest.Rules(t, 1<<28, 1<<28, 1)
	for name, c := range map[string]struct {
		config Config
		status int
	}{
		"one rule":        {one(rules[0]), 200},
		"one that denies": {one(rules[2]), 429},
		"several, behind a proxy": {Config{
			Limits:  []Limit{{Rule: rules[0]}, {Rule: rules[1], Cost: func(*fasthttp.RequestCtx) uint64 { return 2 }}},
			Clients: middlewaretest.Clients(t, "10.0.0.0/8", 0),
			OnAllow: func(ctx *fasthttp.RequestCtx, v *Verdict) { v.SetHeaders(&ctx.Response.Header) },
		}, 200},
		"several, one denies": {Config{
			Limits: []Limit{{Rule: rules[0]}, {Rule: rules[2]}},
			OnDeny: func(ctx *fasthttp.RequestCtx, v *Verdict) { v.Write(&ctx.Response) },
		}, 429},
	} {
		m, err := New(c.config)
		if err != nil {
			t.Fatal(err)
		}
		h := m.Wrap(func(*fasthttp.RequestCtx) {})
		ctx := newContext(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, "X-Forwarded-For", "192.0.2.1, 10.0.0.2")
		request := func() {
			ctx.Response.Reset()
			h(ctx)
		}
		for range 10 {
			request()
		}
		if got := ctx.Response.StatusCode(); got != c.status {
			t.Errorf("%s: got %d", name, got)
		}
		if n := testing.AllocsPerRun(1000, request); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
