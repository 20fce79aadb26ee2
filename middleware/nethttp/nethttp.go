// Package nethttp is a middleware for net/http servers that limits clients by
// one rule of a limiter. It links nothing but the limiter and the standard
// library.
//
// An admitted request goes on unchanged. A denied one is answered here, with
// the fields of package server: Retry-After, RateLimit-Policy, RateLimit,
// X-RateLimit-* and a problem document.
package nethttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
)

// Config configures a [Middleware].
type Config struct {
	// Rule limits the requests. Required. A shadow rule counts and denies
	// nobody. One that denies a request does not give back what middlewares
	// around it have taken: put the strictest outermost.
	Rule *fastlimit.Rule

	// Key names the client of a request; ok is false where the rule does not
	// apply. Its parts may borrow from the request. nil means the address of
	// the peer. Behind a reverse proxy that is the proxy: then read the one
	// header that your proxy sets, and only if the peer is your proxy.
	Key func(r *http.Request) (key fastlimit.Key, ok bool)

	// DenyStatus is the status of a denial, 400 to 599. 0 means 429.
	DenyStatus int
}

// Middleware limits the requests to a handler. It is safe for concurrent use.
// The zero value is not usable: call [New].
type Middleware struct {
	config Config
	answer *denial.Answer
	values sync.Pool // *denial.Values
}

// New checks the configuration.
func New(c Config) (*Middleware, error) {
	if c.Rule == nil {
		return nil, errors.New("fastlimit/middleware/nethttp: no Rule: get one with Limiter.Rule")
	}
	if c.DenyStatus == 0 {
		c.DenyStatus = http.StatusTooManyRequests
	}
	if c.DenyStatus < 400 || c.DenyStatus > 599 {
		return nil, fmt.Errorf("fastlimit/middleware/nethttp: DenyStatus %d: want 400 to 599, 429 for most", c.DenyStatus)
	}
	m := &Middleware{config: c, answer: denial.New(c.Rule.Config(), c.DenyStatus)}
	m.values.New = func() any { return new(denial.Values) }
	return m, nil
}

// Wrap returns a handler that passes admitted requests on to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	rule := m.config.Rule
	config := rule.Config()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var key fastlimit.Key
		var ok bool
		if m.config.Key != nil {
			if key, ok = m.config.Key(r); !ok {
				next.ServeHTTP(w, r)
				return
			}
		} else if key, ok = m.peerKey(r); !ok {
			// A key shared by all such connections would let one deny the others.
			http.Error(w, "the connection has no client address", http.StatusBadRequest)
			return
		}
		d := rule.Take(r.Context(), key, config.Cost)
		if d.Allowed || config.Mode == fastlimit.Shadow {
			next.ServeHTTP(w, r)
			return
		}
		m.deny(w, &d)
	})
}

// peerKey is the key of the peer's address, if it has one.
func (m *Middleware) peerKey(r *http.Request) (fastlimit.Key, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	if err != nil || addr.IsUnspecified() {
		return fastlimit.Key{}, false
	}
	return m.config.Rule.AddrKey(addr), true
}

func (m *Middleware) deny(w http.ResponseWriter, d *fastlimit.Decision) {
	v := m.values.Get().(*denial.Values)
	m.answer.Render(v, d)
	h := w.Header()
	h.Set(denial.ContentType, denial.ProblemMediaType)
	h.Set(denial.CacheControl, denial.NoStore)
	h.Set(denial.RateLimitPolicy, m.answer.Policy)
	h.Set(denial.RetryAfter, string(v.RetryAfter))
	h.Set(denial.RateLimit, string(v.RateLimit))
	h.Set(denial.Remaining, string(v.Remaining))
	h.Set(denial.Reset, string(v.Reset))
	h.Set(denial.Clear, string(v.Clear))
	m.values.Put(v)
	w.WriteHeader(m.answer.Status)
	w.Write(m.answer.Body)
}
