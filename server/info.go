package server

import (
	"fmt"
	"runtime"
	"time"

	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/decide"
	"github.com/fastlimit/fastlimit/server/internal/metrics"
)

// info returns the document of /v1/info.
func (s *Server) info() admin.Info {
	now, set := s.state.Load(), s.decide.Snapshot().Settings()
	c := &now.config
	info := admin.Info{
		Version: c.Version, Go: runtime.Version(), UptimeSeconds: time.Since(s.started).Seconds(),
		Upstream: c.upstreamURLs(), DecideAPI: set.Batches, AccessLog: c.AccessLog.File,
		Connections: admin.Connections{
			Max: c.Connections.Max, MaxPerClient: c.Connections.MaxPerClient, MaxStreamsPerClient: c.Connections.MaxStreamsPerClient, HeaderBytes: c.Connections.HeaderBytes,
			HeaderTimeoutSecs: c.Connections.HeaderTimeout.Seconds(), IdleTimeoutSecs: c.Connections.IdleTimeout.Seconds(),
			WriteTimeoutSecs: c.Connections.WriteTimeout.Seconds(), Open: s.conns.Open(),
		},
		Drain:  admin.Drain{DelaySecs: c.Drain.Delay.Seconds(), TimeoutSecs: c.Drain.Timeout.Seconds()},
		Kernel: s.kernelInfo(),
	}
	if c.GoMemory != nil { // a nil pointer in an interface would be shown as null
		info.Memory.Go = c.GoMemory
	}
	for i, at := range now.open {
		p := now.places[at]
		if p.ln.Addr() == nil {
			break // before Listen
		}
		shown := listenerInfo(p.ln.Addr().String(), &set.Listeners[at])
		c.Listeners[i].show(&shown)
		if p.pair != nil {
			shown.TLS = &admin.TLS{CertFile: c.Listeners[i].TLS.CertFile, NotAfter: p.pair.NotAfter()}
		}
		info.Listen = append(info.Listen, shown)
	}
	if a := s.AdminAddr(); a != nil {
		info.Admin = a.String()
	}
	if c.Store != nil {
		st := c.Store()
		shown := &admin.Store{State: st.State, DistanceSecs: st.Distance.Seconds(), TimeoutSecs: st.Timeout.Seconds(), Late: st.Late}
		if st.Name == "postgres" {
			info.Postgres = shown
		} else {
			info.Redis = shown
		}
	}
	if c.ListFiles != nil {
		for _, f := range c.ListFiles() {
			info.ListFiles = append(info.ListFiles, admin.ListFile{List: f.List, File: f.File, Entries: f.Entries, ReadAt: f.Read, Error: f.Error})
		}
	}
	lag := time.Duration(0)
	if c.Cluster != nil {
		others := c.Cluster()
		info.Cluster = &admin.Cluster{
			Name: others.Name, Node: others.Node, Address: others.Address, MaxNodes: others.MaxNodes,
			IntervalSecs: others.Interval.Seconds(), LagSecs: others.Lag.Seconds(), Peers: append([]string{}, others.Peers...),
		}
		lag = others.Lag
	}
	plan := set.Limiter.Plan()
	info.AddPlan(&plan, lag)
	for i := range info.Rules {
		info.Rules[i].LiveSecs = s.liveFor(info.Rules[i].Name).Seconds()
	}
	addStats(&info, s.decide.RuleStats())
	return info
}

// addStats adds how full rules are, and the results of their audits.
func addStats(info *admin.Info, stats []decide.RuleStats) {
	for i := range info.Rules {
		sum := decide.OfName(stats, info.Rules[i].Name)
		info.Rules[i].SketchLoad, info.Rules[i].Evictions = sum.SketchLoad, sum.Evictions
		if a := &sum.Audit; a.Clients > 0 || a.Requests > 0 {
			info.Rules[i].Audit = &admin.Audit{
				Clients: a.Clients, Requests: a.Requests, FalseDenials: a.FalseDenials, Excess: a.Excess, FalseSuspects: a.FalseSuspects, Peak: a.Peak,
			}
		}
	}
}

// listenerInfo describes a listener for /v1/info.
func listenerInfo(address string, l *decide.Listener) admin.Listener {
	info := admin.Listener{Address: address, DenyStatus: l.Status, HeadersOn: HeadersOnDenials.String()}
	if l.Always {
		info.HeadersOn = HeadersAlways.String()
	}
	for _, set := range denial.WithDefault(l.Headers) {
		info.Headers = append(info.Headers, set.String())
	}
	return info
}

// show adds what a listener does before a request.
func (l *Listener) show(info *admin.Listener) {
	if l.Mode != 0 {
		info.Mode = fmt.Sprintf("%04o", l.Mode)
	}
	info.ProxyProtocol = l.ProxyProtocol
	if l.OriginalRequest != nil {
		info.OriginalRequest = l.OriginalRequest.String()
	}
}

// stats returns what a scrape of /metrics reads.
func (s *Server) stats() metrics.Stats {
	atDoor, kept := s.conns.Accepted()
	stats := metrics.Stats{
		Version: s.config().Version, Requests: metrics.Requests(s.decide.Requests()),
		FirstSeenClients: float64(s.decide.Snapshot().Settings().Limiter.FirstSeenClients()),
		Bad:              s.decide.Bad(), Untrusted: s.decide.Untrusted(), Unnamed: s.decide.Unnamed(),
		Durations: s.durations(), Overloaded: s.overload.stats(), Ready: s.ready() == nil,
		Connections: s.conns.States(), AtDoor: atDoor, Kept: kept, Rejected: s.conns.Rejected(), Dismissed: s.conns.Dismissed(),
		ProxyErrors: s.conns.ProxyErrors(), HandshakeErrors: s.conns.HandshakeErrors(), Expiry: s.expiry(),
		HTTP2: metrics.HTTP2(s.http2.Stats()), RefusedStreams: s.conns.RefusedStreams(),
		AcceptErrors: s.conns.AcceptErrors(), DroppedLines: s.droppedLines(), LostLogs: s.config().LostLogs, Kernel: s.kernelStats(),
	}
	if s.proxy != nil {
		behind := s.pools.Stats()
		passed := metrics.Proxied(s.proxy.Stats())
		stats.Upstream, stats.Proxied = &behind, &passed
	}
	for _, r := range s.decide.RuleStats() {
		stats.Rules = append(stats.Rules, metrics.Rule(r))
	}
	return stats
}

func (s *Server) durations() metrics.Durations {
	d := s.decide.Durations()
	return metrics.Durations{Decisions: d.Decisions, Allowed: d.Allowed, Denied: d.Denied, Waited: s.conns.Waited()}
}
