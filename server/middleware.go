package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/valyala/fasthttp"
)

// MiddlewareConfig configures a [Middleware].
type MiddlewareConfig struct {
	// Rule limits the requests. Required. A shadow rule counts and denies
	// nobody. One that denies a request does not give back what middlewares
	// around it have taken: put the strictest outermost.
	Rule *fastlimit.Rule

	// Key names the client of a request; ok is false where the rule does not
	// apply. Its parts may borrow from the request. nil means the address of
	// the peer. Behind a reverse proxy that is the proxy: then read the one
	// header that your proxy sets, and only if the peer is your proxy.
	Key func(ctx *fasthttp.RequestCtx) (key fastlimit.Key, ok bool)

	// DenyStatus is the status of a denial, 400 to 599. 0 means 429.
	DenyStatus int
}

// Middleware limits the requests to a fasthttp handler by one rule, without
// allocating. It is safe for concurrent use. The zero value is not usable: call
// [NewMiddleware]. For net/http see package nethttp.
type Middleware struct {
	config MiddlewareConfig
	page   *decide.DenyResponse
	values sync.Pool // *denial.Values
}

// NewMiddleware checks the configuration.
func NewMiddleware(c MiddlewareConfig) (*Middleware, error) {
	if c.Rule == nil {
		return nil, errors.New("fastlimit/server: no Rule: get one with Limiter.Rule")
	}
	c.DenyStatus = cmp.Or(c.DenyStatus, defaultDenyStatus)
	if c.DenyStatus < 400 || c.DenyStatus > 599 {
		return nil, fmt.Errorf("fastlimit/server: DenyStatus %d: want 400 to 599, 429 for most", c.DenyStatus)
	}
	m := &Middleware{config: c, page: decide.NewDenyResponse(c.Rule.Config(), c.DenyStatus)}
	m.values.New = func() any { return new(denial.Values) }
	return m, nil
}

// Wrap returns a handler that passes admitted requests on to next. A denied one
// is answered as a [Server] answers it. Headers that handlers around it have set
// on the response are lost then.
func (m *Middleware) Wrap(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	rule := m.config.Rule
	config := rule.Config()
	return func(ctx *fasthttp.RequestCtx) {
		var key fastlimit.Key
		if m.config.Key != nil {
			own, ok := m.config.Key(ctx)
			if !ok {
				next(ctx)
				return
			}
			key = own
		} else {
			peer := conn.PeerAddr(ctx)
			if !peer.IsValid() || peer.IsUnspecified() {
				// A key shared by all such connections would let one deny the others.
				ctx.Error("the connection has no client address", fasthttp.StatusBadRequest)
				return
			}
			key = rule.AddrKey(peer)
		}
		d := rule.Take(context.Background(), key, config.Cost)
		if d.Allowed || config.Mode == fastlimit.Shadow {
			next(ctx)
			return
		}
		v := m.values.Get().(*denial.Values)
		m.page.Write(&ctx.Response, &d, v)
		m.values.Put(v)
	}
}
