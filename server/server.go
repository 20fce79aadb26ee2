package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/lifecycle"
	"github.com/fastlimit/fastlimit/server/internal/metrics"
	"github.com/fastlimit/fastlimit/toptalkers"
)

// Server serves decisions and an admin listener. Use it once: [New], Listen,
// Serve. The zero value is not usable. Addrs and AdminAddr are safe for
// concurrent use after Listen.
type Server struct {
	config  Config // with defaults filled in
	started time.Time
	talkers *localTalkers // nil: none, or Config.TopTalkers

	decide  *decide.Service
	conns   *conn.Conns
	traffic []*conn.Listener // in the order of Config.Listeners
	admin   *http.Server     // nil: none
	adminLn net.Listener
	watch   *lifecycle.RuleWatch
	state   lifecycle.State
}

// New checks the configuration and renders all answers. It opens nothing. Its
// error joins everything that is wrong.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	c.Connections.Max = conn.FitDescriptors(c.Connections.Max, c.Logger)
	s := &Server{config: c, started: time.Now(), watch: lifecycle.NewRuleWatch(c.Logger)}
	if c.TopTalkers == nil {
		if s.talkers = newLocalTalkers(c.Limiter); s.talkers != nil {
			s.config.TopTalkers = s.talkers
		}
	}
	s.decide = decide.New(decide.Config{
		Log: c.Logger, BodyBytes: c.Connections.BodyBytes, DenialLogs: c.DenialLogs,
	}, decide.NewSnapshot(c.settings()))
	s.conns = conn.New(conn.Limits{
		Head: c.Connections.HeaderTimeout, Write: c.Connections.WriteTimeout, Idle: c.Connections.IdleTimeout,
		Max: c.Connections.Max, PerClient: c.Connections.MaxPerClient, HeadBytes: c.Connections.HeaderBytes,
		Exempt: s.decide.TrustedProxy,
	}, c.Logger)
	for i := range c.Listeners {
		s.traffic = append(s.traffic, conn.NewListener(s.conns, s.decide.Handlers(i)))
	}
	if c.Admin != "" {
		s.admin = s.newAdmin()
	}
	return s, nil
}

func (s *Server) newAdmin() *http.Server {
	c := admin.Config{
		Log: s.config.Logger, Metrics: metrics.Handler(s.stats, s.config.Collectors, s.config.Logger),
		Ready: s.ready, Info: s.info,
		Batch: s.decide.Batch, MaxBatchBytes: decide.MaxBatchBytes,
	}
	if t := s.config.TopTalkers; t != nil {
		c.Top = func(n int) any { return append([]toptalkers.Talker{}, t.Top(n)...) }
	}
	return admin.New(c)
}

// settings are what a reload may change, of a configuration with its defaults
// filled in.
func (c *Config) settings() decide.Settings {
	set := decide.Settings{Limiter: c.Limiter, Engine: c.Engine, Identity: c.Identity, Batches: c.DecideAPI}
	for _, l := range c.Listeners {
		set.DenyStatus = append(set.DenyStatus, l.DenyStatus)
	}
	return set
}

// Listen binds all addresses, so that they are known before anything is served.
// Its error names every address that failed and what to do.
func (s *Server) Listen() error {
	var errs []error
	for i, l := range s.traffic {
		errs = append(errs, l.Bind(s.config.Listeners[i].Address))
	}
	if s.admin != nil {
		ln, err := conn.Listen("admin", s.config.Admin)
		s.adminLn, errs = ln, append(errs, err)
	}
	err := errors.Join(errs...)
	if err != nil {
		s.unbind()
	}
	return err
}

// unbind closes the listeners of a server that has not served.
func (s *Server) unbind() {
	for _, l := range s.traffic {
		l.Unbind()
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
	for _, l := range s.traffic {
		a := l.Addr()
		if a == nil {
			return nil
		}
		all = append(all, a)
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

// Serve serves until ctx ends, then drains: /readyz turns 503, the listeners close
// after Drain.Delay, requests in flight finish within Drain.Timeout. It returns nil
// after a clean drain, else an error that says how many connections were cut or
// which listener failed. The only goroutine it leaves behind is the one that keeps
// fasthttp's Date header. Serve calls Listen if the caller did not.
func (s *Server) Serve(ctx context.Context) error {
	if s.Addrs() == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	return s.state.Run(ctx, &lifecycle.Parts{
		Log: s.config.Logger, Delay: s.config.Drain.Delay, Timeout: s.config.Drain.Timeout,
		Conns: s.conns, Listeners: s.traffic, Admin: s.admin, AdminListener: s.adminLn,
		Tick: s.tick, EndSecond: s.endSecond,
	})
}

// tick runs once a second.
func (s *Server) tick() {
	lim := s.decide.Snapshot().Settings().Limiter
	lim.Advance()
	s.watch.Look(lim)
	if s.talkers != nil {
		s.talkers.tick()
	}
}

// endSecond ends a second of the log.
func (s *Server) endSecond() {
	s.decide.EndSecond()
	s.conns.EndSecond(time.Since(s.started))
}

func (s *Server) ready() error {
	if err := s.state.Ready(); err != nil || s.config.Ready == nil {
		return err
	}
	return s.config.Ready()
}
