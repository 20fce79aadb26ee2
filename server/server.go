package server

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// Server serves decisions and an admin listener. Use it once: [New], Listen,
// Serve. The zero value is not usable. Addrs and AdminAddr are safe for
// concurrent use after Listen.
type Server struct {
	config  Config // with defaults filled in
	log     *slog.Logger
	limiter *fastlimit.Limiter
	engine  *policy.Engine
	listed  *listedPage
	faults  *faults
	started time.Time
	state   atomic.Uint32
	talkers *localTalkers // nil: none, or Config.TopTalkers

	// What the log gets of floods. The watcher ends a second of each.
	denials           denialLog
	bad               badLog
	panics, acceptLog sampler
	acceptErrors      atomic.Uint64 // logged or not

	conns   conns // of all traffic listeners
	traffic []*traffic
	admin   *http.Server // nil: none
	adminLn net.Listener
}

// The states of a server.
const (
	stateStarting uint32 = iota
	stateServing
	stateDraining
)

// New checks the configuration and renders all answers. It opens nothing. Its
// error joins everything that is wrong.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: c, log: c.Logger, limiter: c.Limiter, engine: c.Engine,
		listed: newListedPage(), faults: newFaults(), started: time.Now(),
	}
	if c.TopTalkers == nil {
		if s.talkers = newLocalTalkers(c.Limiter); s.talkers != nil {
			s.config.TopTalkers = s.talkers
		}
	}
	s.fitDescriptors(openFiles())
	s.conns.init(limits{
		head: c.Connections.HeaderTimeout, write: c.Connections.WriteTimeout, idle: c.Connections.IdleTimeout,
		max: s.config.Connections.Max, perClient: c.Connections.MaxPerClient,
		large: max(1, largeMemory/c.Connections.HeaderBytes), exempt: c.Identity.Trusted,
	})
	s.denials.init(c.DenialLogs)
	for _, l := range c.Listeners {
		s.traffic = append(s.traffic, s.newTraffic(l))
	}
	if c.Admin != "" {
		s.admin = s.newAdmin()
	}
	return s, nil
}

func (s *Server) newTraffic(l Listener) *traffic {
	c := &s.config
	t := &traffic{
		Server: s, listener: l,
		engine: *c.Engine, batches: c.DecideAPI, conns: &s.conns, accepted: make(chan struct{}),
	}
	t.identity.clients = *c.Identity
	for i, r := range s.limiter.Rules() {
		t.pages = append(t.pages, newPage(r.Config(), i, l.DenyStatus))
	}
	t.http = t.newHTTP(min(smallHead, c.Connections.HeaderBytes))
	t.large = t.newHTTP(c.Connections.HeaderBytes)
	return t
}

// Listen binds all addresses, so that they are known before anything is served.
// Its error names every address that failed and what to do.
func (s *Server) Listen() error {
	var errs []error
	for _, t := range s.traffic {
		ln, err := listen("listen", t.listener.Address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.ln = &retryListener{Listener: ln, failed: s.acceptFailed}
	}
	if s.admin != nil {
		ln, err := listen("admin", s.config.Admin)
		if err != nil {
			errs = append(errs, err)
		}
		s.adminLn = ln
	}
	if len(errs) > 0 {
		s.closeListeners()
		return errors.Join(errs...)
	}
	return nil
}

func (s *Server) closeListeners() {
	for _, t := range s.traffic {
		if t.ln != nil {
			_ = t.ln.Close() // nothing was served
			t.ln = nil
		}
	}
	if s.adminLn != nil {
		s.adminLn.Close()
		s.adminLn = nil
	}
}

// Addrs are the traffic addresses in the order of Config.Listeners, port 0
// resolved; nil before Listen.
func (s *Server) Addrs() []net.Addr {
	var all []net.Addr
	for _, t := range s.traffic {
		if t.ln == nil {
			return nil
		}
		all = append(all, t.ln.Addr())
	}
	return all
}

// AdminAddr is the admin address, port 0 resolved; nil without one or before
// Listen.
func (s *Server) AdminAddr() net.Addr {
	if s.adminLn == nil {
		return nil
	}
	return s.adminLn.Addr()
}

// requests adds up what became of the requests on all listeners.
func (s *Server) requests() (sum [outcomeCount]uint64) {
	for _, t := range s.traffic {
		n := t.counts.totals()
		for i := range sum {
			sum[i] += n[i]
		}
	}
	return sum
}

// untrusted adds up what the listeners noticed of proxies nobody trusts.
func (s *Server) untrusted() (sum uint64) {
	for _, t := range s.traffic {
		sum += t.identity.hint.Count()
	}
	return sum
}

// unnamed adds up the requests of trusted proxies that named no client or no
// original request.
func (s *Server) unnamed() (sum uint64) {
	for _, t := range s.traffic {
		sum += t.identity.unnamed.Count()
	}
	return sum
}
