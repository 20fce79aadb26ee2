package server

import (
	"context"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
)

const (
	tick = time.Second

	// A sketch above overloaded makes suspects of too many clients; it is
	// well again below recovered, so that a load at the edge is told once.
	overloaded, recovered = 0.5, 0.4

	// evictionQuiet is the time without evictions after which the next one is
	// news again.
	evictionQuiet = time.Minute

	maxLoggedText = 128
)

// watch ticks until ctx ends.
func (s *Server) watch(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	watchers := make([]ruleWatch, 0)
	crowd := crowdWatch{server: s}
	for _, r := range s.limiter.Rules() {
		watchers = append(watchers, ruleWatch{rule: r, log: s.log})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.limiter.Advance()
			for i := range watchers {
				watchers[i].look(watchers[i].rule.Stats(), s.limiter.Now())
			}
			s.refill()
			crowd.look(s.conns.crowded.Load(), s.limiter.Now())
			if s.config.Tick != nil {
				s.config.Tick()
			}
		}
	}
}

// refill begins a second of the log: it tells what the last one could not, and
// gives budgets for the next.
func (s *Server) refill() {
	n := s.requests()
	lines, counts, others := s.denials.next(n[outcomeDeny] + n[outcomeListDeny])
	for i := range lines {
		lines[i].log(s.log, counts[i])
	}
	if s.config.DenialLogs > 0 {
		s.tell("denials not logged", others)
	}
	s.bad.next(s.faults.requests(), s.log)
	s.tell("panics not logged", s.panics.refill(1, s.faults.internal.count.Load()))
	s.tell("accept errors not logged", s.acceptLog.refill(1, s.acceptErrors.Load()))
}

func (s *Server) tell(what string, suppressed uint64) {
	if suppressed > 0 {
		s.log.Info(what, slog.Uint64("suppressed", suppressed))
	}
}

// ruleWatch tells of changes in the state of a rule, once each.
type ruleWatch struct {
	rule     *fastlimit.Rule
	log      *slog.Logger
	overload bool

	evictions uint64
	evicting  bool
	lastSeen  time.Duration // when evictions last grew
}

func (w *ruleWatch) look(stats fastlimit.RuleStats, now time.Duration) {
	name := slog.String("rule", w.rule.Name())
	switch load := stats.SketchLoad; {
	case !w.overload && load > overloaded:
		w.overload = true
		w.log.Warn("sketch overloaded: many clients are checked exactly; raise memory, or the rate of the rule",
			name, slog.Float64("load", load))
	case w.overload && load < recovered:
		w.overload = false
		w.log.Info("sketch recovered", name, slog.Float64("load", load))
	}
	switch {
	case stats.Evictions > w.evictions:
		w.evictions, w.lastSeen = stats.Evictions, now
		if !w.evicting {
			w.evicting = true
			w.log.Warn("exact buckets are given up before they drain: more suspects are alive than the table holds; raise memory",
				name, slog.Uint64("evictions", stats.Evictions))
		}
	case w.evicting && now-w.lastSeen >= evictionQuiet:
		w.evicting = false
		w.log.Info("no more exact buckets are given up", name, slog.Uint64("evictions", stats.Evictions))
	}
}

// crowdWatch tells when connections run short, and when they have not for a
// while: a flood may have them run short many times a second.
type crowdWatch struct {
	server   *Server
	told     bool
	lastSeen time.Duration
}

func (w *crowdWatch) look(crowded bool, now time.Duration) {
	switch {
	case crowded && !w.told:
		w.told = true
		w.server.log.Warn("connections are nearly full: denied and idle ones are ended; raise connections.max, or lower connections.idle_timeout",
			slog.Int("open", w.server.conns.count()), slog.Int("max", w.server.config.Connections.Max))
	case !crowded && w.told && now-w.lastSeen >= evictionQuiet:
		w.told = false
		w.server.log.Info("connections are no longer nearly full", slog.Int("open", w.server.conns.count()))
	}
	if crowded {
		w.lastSeen = now
	}
}

func (s *Server) warnProxy(w warning, peer netip.Addr) {
	text := "everybody shares the address of a proxy that is not trusted: add it to trusted_proxies"
	if w == warnUnnamed {
		text = "a trusted proxy does not name the client, or not the original request: let it set the headers of client_ip_header and original_request; until then on_unnamed decides"
	}
	s.log.Warn(text, slog.String("peer", peer.String()))
}

// acceptFailed is called for an error of Accept that will pass.
func (s *Server) acceptFailed(err error) {
	s.acceptErrors.Add(1)
	if s.acceptLog.take() {
		s.log.Error("connections cannot be accepted: raise the limit of open files, or lower connections.max",
			slog.String("error", err.Error()))
	}
}

// printable makes text of a client fit for any log: escaped if anything in it
// is not printable ASCII, and cut.
func printable(s string) string {
	cut := len(s) > maxLoggedText
	if cut {
		s = s[:maxLoggedText]
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			q := strconv.QuoteToASCII(s)
			s = q[1 : len(q)-1]
			break
		}
	}
	if cut {
		s += "…"
	}
	return s
}
