package server

import (
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/server/internal/admin"
	"github.com/fastlimit/fastlimit/server/internal/decide"
)

// historyMinutes is how far back /v1/history reaches.
const historyMinutes = 60

// history keeps the decisions of each of the last minutes. The zero value has none.
type history struct {
	mu    sync.Mutex
	last  []admin.Minute // the oldest first
	since sample         // at the start of the current minute
	were  []decide.RuleStats
}

// note is called once a second.
func (h *history) note(now sample, rules []decide.RuleStats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.at.IsZero() {
		h.since, h.were = now, rules
	}
	if now.at.Sub(h.since.at) < time.Minute {
		return
	}
	h.last = append(h.last, minuteOf(&h.since, &now, h.were, rules))
	h.last = h.last[max(0, len(h.last)-historyMinutes):]
	h.since, h.were = now, rules
}

// all returns the minutes that have ended, and the current one.
func (h *history) all(now sample, rules []decide.RuleStats) (l admin.History) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.Minutes = append([]admin.Minute{}, h.last...)
	if !h.since.at.IsZero() && now.at.After(h.since.at) {
		l.Minutes = append(l.Minutes, minuteOf(&h.since, &now, h.were, rules))
	}
	return l
}

// minuteOf returns the difference between two samples.
func minuteOf(was, now *sample, wereRules, rules []decide.RuleStats) admin.Minute {
	m := admin.Minute{From: was.at.UTC(), Seconds: now.at.Sub(was.at).Seconds(), Rules: []admin.RuleMinute{}}
	m.Admitted = now.requests.Allowed + now.requests.ListAllowed - was.requests.Allowed - was.requests.ListAllowed
	m.Denied = now.requests.Denied + now.requests.ListDenied + now.requests.Banned - was.requests.Denied - was.requests.ListDenied - was.requests.Banned
	before := map[ruleMode]*decide.RuleStats{}
	for i := range wereRules {
		before[ruleMode{wereRules[i].Name, wereRules[i].Mode}] = &wereRules[i]
	}
	for i := range rules {
		r := &rules[i]
		of := admin.RuleMinute{Rule: r.Name, Mode: r.Mode, Admitted: map[string]uint64{}, Denied: map[string]uint64{}}
		old := before[ruleMode{r.Name, r.Mode}]
		if old == nil {
			old = new(decide.RuleStats)
		}
		for _, stage := range limit.Stages() {
			if n := r.Allowed[stage] - min(old.Allowed[stage], r.Allowed[stage]); n > 0 {
				of.Admitted[stage.String()] = n
			}
			if n := r.Denied[stage] - min(old.Denied[stage], r.Denied[stage]); n > 0 {
				of.Denied[stage.String()] = n
			}
		}
		if len(of.Admitted)+len(of.Denied) > 0 {
			m.Rules = append(m.Rules, of)
		}
	}
	return m
}

// lastHour returns the document of /v1/history.
func (s *Server) lastHour() admin.History {
	now, rules := s.sample()
	return s.minutes.all(now, rules)
}
