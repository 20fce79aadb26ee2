package server

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/unixsocket"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// NotLive says which settings need a restart. Nothing has been changed.
type NotLive struct {
	Fields []string // of a [Config], for example Connections.HeaderBytes
}

// Error implements error.
func (e *NotLive) Error() string {
	return "fastlimit/server: only a restart can change " + strings.Join(e.Fields, ", ")
}

// ErrNotServing means that the server does not serve yet, or is draining, so it cannot reload.
var ErrNotServing = conn.ErrNotServing

// Reload makes new requests be decided and answered by another configuration; those in flight finish under
// the old one. It changes everything or, with an error, nothing.
//
// A listener is identified by its address. One that stays keeps its socket and its connections; new
// connections get the new settings. A new one is bound before anything changes. A removed one accepts what is
// in its queue and closes, and its connections end as in a drain, within Drain.Timeout, after Reload has
// returned. With other settings of Upstream, or of Connections that affect it, requests use new connections;
// those in flight keep theirs.
//
// The error joins everything that is wrong with the configuration, or it is a [NotLive]. The fields that
// describe the program around the server, such as Ready and TopTalkers, are replaced, except for Collectors,
// Overrides, Bans, Rules, Changes, Reload and Logger, which stay those of [New].
//
// Config.Engine decides from the first request on: to keep lists, bans or live overrides it must have them,
// and Config.Tiers the live tiers.
//
// Reload is safe for concurrent use. Call it while Serve runs.
func (s *Server) Reload(c Config) error {
	s.reloads.Lock()
	defer s.reloads.Unlock()
	now := s.state.Load()
	c.machine = now.config.machine
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	c.fitDescriptors()
	if fields := now.notLive(&c); len(fields) > 0 {
		return &NotLive{fields}
	}
	next := &state{config: c}
	if next.places, next.open, err = now.place(&c); err != nil {
		return err
	}
	made, err := s.bind(now, next)
	if err == nil {
		// A new listener must not accept before the snapshot has answers for it.
		err = s.traffic.Set(next.listeners(), c.Drain.Timeout, func() { s.swap(now, next) })
	}
	if err != nil {
		for _, ln := range made {
			ln.Unbind()
		}
	}
	return err
}

// swap puts next in force instead of now. It cannot fail.
func (s *Server) swap(now, next *state) {
	was, c := &now.config, &next.config
	snap := next.snapshot()
	s.state.Store(next)
	s.decide.Swap(snap)
	s.conns.SetLimits(c.limits())
	if s.access != nil {
		s.access.ShowQueries(c.AccessLog.Queries)
	}
	if c.Upstream != nil && !reflect.DeepEqual(was.Upstream, c.Upstream) {
		pool := c.Upstream.pool(c.Connections.WriteTimeout, c.Logger)
		s.proxy.Set(c.proxied(pool))
		s.pools.Set(pool)
	} else if c.Upstream != nil {
		s.proxy.Set(c.proxied(s.pools.Current()))
	}
	for _, at := range next.open {
		p := &next.places[at]
		p.ln.SetOptions(p.options(p.pair, s.http2.Serve))
	}
	switch {
	case c.TopTalkers != nil:
		s.talkers.Store(nil) // nobody asks it, and it would retain its limiter
	case c.Limiter != was.Limiter:
		s.talkers.Store(s.talkers.Load().follow(c.Limiter))
	}
	if s.feed.Load() == nil {
		return
	}
	s.spare()
	if !reflect.DeepEqual(bansOf(was.Limiter), bansOf(c.Limiter)) {
		// Clients that are still banned are passed to the kernel again when they are denied.
		s.expel.ForgetFunc(func(netip.Prefix) bool { return true })
	}
}

// listeners returns the open listeners.
func (now *state) listeners() (all []*conn.Listener) {
	for _, at := range now.open {
		all = append(all, now.places[at].ln)
	}
	return all
}

// bind makes and binds the listeners of next that now does not have.
func (s *Server) bind(now, next *state) (made []*conn.Listener, err error) {
	var addresses []string
	for _, at := range next.open {
		p := &next.places[at]
		if now.listens(at) {
			continue
		}
		p.ln = conn.NewListener(s.conns, p.options(p.pair, s.http2.Serve), s.decide.Handlers(at))
		made, addresses = append(made, p.ln), append(addresses, p.Address)
	}
	return made, conn.BindAll(made, addresses, false)
}

// notLive returns the fields of a configuration that differ from now's, but must not.
func (now *state) notLive(c *Config) (fields []string) {
	was := &now.config
	differs := func(name string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			fields = append(fields, name)
		}
	}
	differs("Admin", was.Admin, c.Admin)
	differs("DenialLogs", was.DenialLogs, c.DenialLogs)
	differs("AccessLog.File", was.AccessLog.File, c.AccessLog.File)
	differs("Connections.HeaderBytes", was.Connections.HeaderBytes, c.Connections.HeaderBytes)
	differs("Connections.BodyBytes", was.Connections.BodyBytes, c.Connections.BodyBytes)
	differs("Connections.WriteTimeout", was.Connections.WriteTimeout, c.Connections.WriteTimeout)
	differs("Upstream", was.Upstream != nil, c.Upstream != nil)
	differs("Kernel", was.Kernel != nil, c.Kernel != nil)
	if was.Kernel != nil && c.Kernel != nil {
		differs("Kernel.Table", was.Kernel.Table, c.Kernel.Table)
		differs("Listeners, whose ports the kernel is told,", portsOf(was), portsOf(c))
		differs("Listeners.ProxyProtocol, which the kernel is told,", balancersOf(was), balancersOf(c))
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		for _, at := range now.open {
			if now.places[at].Address == l.Address && now.places[at].Mode != l.Mode {
				fields = append(fields, fmt.Sprintf("Listeners[%d].Mode", i))
			}
			if now.places[at].Address == l.Address && now.places[at].ReusePort != l.ReusePort {
				fields = append(fields, fmt.Sprintf("Listeners[%d].ReusePort", i))
			}
		}
	}
	return fields
}

// portsOf returns the addresses to whose ports a kernel drops packets.
func portsOf(c *Config) (all []string) {
	for i := range c.Listeners {
		if _, unix := unixsocket.Path(c.Listeners[i].Address); !unix {
			all = append(all, c.Listeners[i].Address)
		}
	}
	slices.Sort(all)
	return all
}

func balancersOf(c *Config) (all []string) {
	for i := range c.Listeners {
		for _, p := range c.Listeners[i].ProxyProtocol {
			all = append(all, p.String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bansOf returns what the bans of rules depend on.
func bansOf(l *fastlimit.Limiter) (all []any) {
	for _, r := range l.Rules() {
		c := r.Config()
		all = append(all, c.Name, c.Mode, c.Ban, c.KeyKind)
	}
	return all
}
