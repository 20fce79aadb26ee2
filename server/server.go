package server

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/accesslog"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/conn"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/expel"
	"github.com/fastlimit/fastlimit/server/internal/guard"
	"github.com/fastlimit/fastlimit/server/internal/h2"
	"github.com/fastlimit/fastlimit/server/internal/lifecycle"
	"github.com/fastlimit/fastlimit/server/internal/logs"
	"github.com/fastlimit/fastlimit/server/internal/metrics"
	"github.com/fastlimit/fastlimit/server/internal/proxy"
	"github.com/fastlimit/fastlimit/server/internal/upstream"
)

// Server serves decisions and an admin listener. Use it once: [New], Listen, Serve. The zero value is not
// usable. Addrs and AdminAddr are safe for concurrent use after Listen.
type Server struct {
	state   atomic.Pointer[state] // what Reload replaces
	started time.Time
	talkers atomic.Pointer[localTalkers] // nil: none, or Config.TopTalkers
	samples sampler                      // for /v1/top
	minutes history                      // for /v1/history

	overload overload

	decide  *decide.Service
	conns   *conn.Conns
	traffic conn.Front // its listeners in the order of Config.Listeners
	http2   *h2.Server
	access  *accesslog.Log // nil: none
	bans    logs.Bans      // begun by rules
	admin   *admin.Front   // nil: none
	pools   upstream.Pools // of all upstreams so far
	proxy   *proxy.Proxy   // nil: a decision service

	feed    atomic.Pointer[feed.Feed] // nil: no kernel drops packets
	expel   *expel.Expeller           // likewise; set before feed
	seconds int                       // of tickKernel

	reloads sync.Mutex // held by Reload, SetRules and SetLists
	watch   lifecycle.RuleWatch
	run     lifecycle.Runner
}

// New checks the configuration, reads certificates and renders all answers. Its
// error joins everything that is wrong.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	places, open, err := new(state).place(&c)
	if err != nil {
		return nil, err
	}
	c.fitDescriptors()
	access, err := c.openAccessLog()
	if err != nil {
		return nil, err
	}
	s := &Server{access: access, started: time.Now(), watch: lifecycle.RuleWatch{Log: c.Logger}}
	if c.TopTalkers == nil {
		s.talkers.Store(newLocalTalkers(c.Limiter))
	}
	now := &state{c, places, open}
	s.state.Store(now)
	s.decide = decide.New(decide.Config{
		Log: c.Logger, BodyBytes: c.Connections.BodyBytes, DenialLogs: c.DenialLogs, Access: access,
	}, now.snapshot())
	limits := c.limits()
	limits.Exempt = s.decide.TrustedProxy
	if c.Kernel != nil {
		limits.Held = s.held
	}
	if u := c.Upstream; u != nil {
		s.pools.Set(u.pool(c.Connections.WriteTimeout, c.Logger))
		s.proxy = proxy.New(proxy.Config{Settings: c.proxied(s.pools.Current()), Service: s.decide, Log: c.Logger})
		s.decide.SetForwarder(s.proxy)
	}
	s.conns = conn.New(limits, c.Logger)
	s.http2 = h2.New(h2.Config{HeadBytes: c.Connections.HeaderBytes, WriteTimeout: c.Connections.WriteTimeout, Log: c.Logger})
	s.traffic.Conns, s.traffic.LetGo = s.conns, s.decide.StopWaiting
	for _, at := range open {
		p := &places[at]
		p.ln = conn.NewListener(s.conns, p.options(p.pair, s.http2.Serve), s.decide.Handlers(at))
		s.traffic.Addresses = append(s.traffic.Addresses, p.Address)
		s.traffic.Listeners = append(s.traffic.Listeners, p.ln)
	}
	s.run = lifecycle.Runner{
		Log:    c.Logger,
		Drain:  func() (delay, timeout time.Duration) { d := s.config().Drain; return d.Delay, d.Timeout },
		Fronts: []lifecycle.Front{&s.traffic},
		Tick:   s.tick, EndSecond: s.endSecond,
	}
	if c.Admin != "" {
		s.admin = s.newAdmin()
		s.run.Last = []lifecycle.Front{s.admin}
	}
	return s, nil
}

// config returns the configuration in force, with defaults.
func (s *Server) config() *Config { return &s.state.Load().config }

// limits returns the bounds on connections.
func (c *Config) limits() conn.Limits {
	l := conn.Limits{
		Head: c.Connections.HeaderTimeout, Write: c.Connections.WriteTimeout, Idle: c.Connections.IdleTimeout,
		Max: c.Connections.Max, PerClient: c.Connections.MaxPerClient, Streams: c.Connections.MaxStreamsPerClient, HeadBytes: c.Connections.HeaderBytes,
	}
	if c.Upstream != nil {
		l.Tunnel = c.Upstream.IdleTimeout
	}
	return l
}

func (s *Server) newAdmin() *admin.Front {
	now := s.config()
	// Copied one by one: the rest refers to the first limiter, whose memory would be retained.
	address, later, log := now.Admin, now.ReusesPort(), now.Logger
	c := admin.Config{
		Listen: func() (net.Listener, error) {
			ln, err := listenAdmin(address, later, log)
			s.traffic.Spare = err != nil
			return ln, err
		},
		Log: log, Metrics: metrics.Handler(s.stats, now.Collectors, now.Logger),
		Ready: s.ready, Info: s.info, Reload: now.Reload,
		HashKey: func(value string) string { return s.decide.Snapshot().Settings().Engine.HashKey(value) },
		Batch:   s.decide.Batch, MaxBatchBytes: decide.MaxBatchBytes,
		Operator: s.operator,
		Top:      s.top, TopBy: s.topBy, History: s.lastHour, Explain: explainer{s}, Changes: now.Changes,
	}
	if now.Overrides != nil { // a nil one in an interface of another type would not be nil
		c.Overrides = now.Overrides
	}
	if now.Bans != nil {
		c.Bans = now.Bans
	}
	if now.Rules != nil {
		c.Rules = now.Rules
	}
	return admin.New(c)
}

// listenAdmin binds the admin address: now, or when the process that this one replaces has ended.
func listenAdmin(address string, later bool, log *slog.Logger) (net.Listener, error) {
	bind := func() (net.Listener, error) { return conn.Listen("admin", address, adminMode, false) }
	ln, err := bind()
	if later && conn.InUse(err) {
		log.Info("another process has the address of admin: it is bound when that ends", slog.String("admin", address))
		return conn.ListenLater(address, bind), nil
	}
	return ln, err
}

// operator says who may do what through the admin listener.
func (s *Server) operator() (o guard.Operator) {
	for _, t := range s.config().AdminTokens {
		o.Tokens = append(o.Tokens, guard.Token{Name: t.Name, Secret: t.Secret, ReadOnly: t.Scope == ScopeRead})
	}
	return o
}

// SetEngine makes new requests be decided by e, which [policy.Engine.WithLive] made from Config.Engine; tiers
// are all of its live ones. The lists of SetLists, if it was called, and bans stay. It is safe for concurrent
// use with everything but itself.
func (s *Server) SetEngine(e *policy.Engine, tiers []*fastlimit.Rule) {
	s.decide.Update(func(now *decide.Snapshot) *decide.Snapshot { return now.WithEngine(e, tiers) })
	if s.feed.Load() != nil {
		s.expel.ForgetFunc(s.decide.OverridesSome)
	}
}

// SetLists makes new requests be decided by these allow and deny lists. Everything else stays. It is safe for
// concurrent use.
func (s *Server) SetLists(l *policy.Lists) {
	s.reloads.Lock() // else SetRules might use the previous lists
	defer s.reloads.Unlock()
	s.decide.Update(func(now *decide.Snapshot) *decide.Snapshot { return now.WithLists(l) })
	s.spare()
}

// Listen binds all addresses, so that they are known before anything is served.
// Its error names every address that failed and what to do.
func (s *Server) Listen() error {
	err := s.run.Listen()
	if err == nil {
		if err = s.openKernel(); err != nil {
			s.run.Close()
		}
	}
	if err != nil {
		s.closeAccessLog()
	}
	return err
}

// Addrs are the traffic addresses in the order of Config.Listeners, port 0
// resolved; nil before Listen.
func (s *Server) Addrs() []net.Addr { return s.traffic.Addrs() }

// AdminAddr is the admin address, port 0 resolved; nil without one or before
// Listen.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// Serve serves until ctx ends, then drains: /readyz answers 503, the listeners close after Drain.Delay,
// requests in flight finish within Drain.Timeout. It returns nil after a clean drain, else an error that says
// how many connections were cut or which listener failed. The only goroutine it leaves behind is the one that
// keeps fasthttp's Date header. Serve calls Listen if the caller did not.
func (s *Server) Serve(ctx context.Context) error {
	if s.Addrs() == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	defer s.closeAccessLog()
	err := s.run.Run(ctx)
	s.pools.Close() // after their users
	return err
}

// tick runs once a second.
func (s *Server) tick() {
	lim := s.decide.Snapshot().Settings().Limiter
	lim.Advance()
	s.watch.Look(lim)
	s.lookAtCertificates(false)
	if t := s.talkers.Load(); t != nil {
		t.tick()
	}
	s.tickKernel()
	if alive := s.config().Alive; alive != nil {
		alive()
	}
}

// endSecond ends a second of the log.
func (s *Server) endSecond() {
	s.decide.EndSecond()
	s.bans.EndSecond(s.config().Logger)
	s.conns.EndSecond(time.Since(s.started))
	s.noteTotals()
	s.noteOverload()
	if s.proxy != nil {
		s.proxy.EndSecond()
		s.pools.EndSecond()
	}
}

func (s *Server) ready() error {
	ready := s.config().Ready
	if err := s.run.Ready(); err != nil || ready == nil {
		return err
	}
	return ready()
}
