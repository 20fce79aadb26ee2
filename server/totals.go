package server

import (
	"sync"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// samples is the most seconds that totals reach back.
const samples = 3

// sample is what a server had counted at that time.
type sample struct {
	at       time.Time // zero: nothing
	requests decide.Requests
	rules    map[ruleMode]ruleCounts
	store    uint64
}

// ruleMode identifies counters that continue when the rule is replaced.
type ruleMode struct{ name, mode string }

type ruleCounts struct{ admitted, denied uint64 }

// sampler keeps the last samples. The zero value has none.
type sampler struct {
	mu   sync.Mutex
	last [samples]sample // oldest first
}

// note is called once a second.
func (s *sampler) note(now sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(s.last[:], s.last[1:])
	s.last[samples-1] = now
}

// oldest returns the oldest sample.
func (s *sampler) oldest() (first sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.last {
		if !s.last[i].at.IsZero() {
			return s.last[i]
		}
	}
	return sample{}
}

// sample reads the counters. rules are the rules' statistics that it used.
func (s *Server) sample() (now sample, rules []decide.RuleStats) {
	now = sample{at: time.Now(), requests: s.decide.Requests(), rules: map[ruleMode]ruleCounts{}}
	if s.config().Store != nil {
		now.store = s.config().Store().Operations
	}
	rules = s.decide.RuleStats()
	for i := range rules {
		r := &rules[i]
		c := ruleCounts{}
		for _, stage := range limit.Stages() {
			c.admitted += r.Allowed[stage]
			c.denied += r.Denied[stage]
		}
		now.rules[ruleMode{r.Name, r.Mode}] = c
	}
	return now, rules
}

// noteTotals is called once a second.
func (s *Server) noteTotals() {
	if s.admin != nil {
		now, rules := s.sample()
		s.samples.note(now)
		s.minutes.note(now, rules)
	}
}

// totals are the server's current rates. Before the first second has passed they are the mean since it was
// made.
func (s *Server) totals() admin.TopTotals {
	now, rules := s.sample()
	was := s.samples.oldest()
	if was.at.IsZero() {
		was.at = s.started
	}
	seconds := max(now.at.Sub(was.at).Seconds(), 0.1)
	per := func(now, was uint64) float64 { return float64(now-min(was, now)) / seconds }
	admitted := func(r *decide.Requests) uint64 { return r.Allowed + r.ListAllowed }
	denied := func(r *decide.Requests) uint64 { return r.Denied + r.ListDenied + r.Banned }
	set := s.decide.Snapshot().Settings()
	t := admin.TopTotals{
		Admitted: per(admitted(&now.requests), admitted(&was.requests)),
		Denied:   per(denied(&now.requests), denied(&was.requests)),
		Rules:    []admin.TopRule{},
		Clients:  set.Limiter.FirstSeenClients(), Connections: s.conns.Open(), Bans: set.Engine.Bans().Running(now.at),
		Uptime: now.at.Sub(s.started).Seconds(), UntrustedProxies: s.decide.UntrustedProxies(),
	}
	t.Requests = t.Admitted + t.Denied
	for i := range rules {
		r := &rules[i]
		if !r.InUse {
			continue
		}
		id := ruleMode{r.Name, r.Mode}
		n, w := now.rules[id], was.rules[id]
		t.Rules = append(t.Rules, admin.TopRule{Rule: r.Name, Mode: r.Mode, Admitted: per(n.admitted, w.admitted), Denied: per(n.denied, w.denied), Bans: r.BansRunning, LiveFor: s.liveFor(r.Name).Seconds()})
		if r.Mode == fastlimit.Enforce.String() {
			t.Bans += r.BansRunning
		}
	}
	if s.config().Store != nil {
		st := s.config().Store()
		t.Store = &admin.TopStore{Name: st.Section(), State: st.State, Operations: per(now.store, was.store)}
	}
	return t
}
