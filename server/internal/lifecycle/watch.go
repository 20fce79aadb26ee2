package lifecycle

import (
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit"
)

const (
	// Above overloaded a sketch makes suspects of too many clients. It counts as
	// recovered only below a lower load, so that one near the threshold is reported once.
	overloaded, recovered = 0.5, 0.4

	// evictionQuiet is the time without evictions after which the next one is
	// logged again.
	evictionQuiet = time.Minute
)

// RuleWatch logs changes in the state of the rules, once each. Used by one
// goroutine. The zero value is not usable: call [NewRuleWatch].
type RuleWatch struct {
	log   *slog.Logger
	lim   *fastlimit.Limiter
	rules map[*fastlimit.Rule]*ruleWatch // of lim
}

// NewRuleWatch returns a watch that logs to log.
func NewRuleWatch(log *slog.Logger) *RuleWatch {
	return &RuleWatch{log: log}
}

// Look looks at the rules of a limiter; call it once a second. It forgets the
// rules that only another limiter had.
func (w *RuleWatch) Look(lim *fastlimit.Limiter) {
	if w.lim != lim {
		old := w.rules
		w.lim, w.rules = lim, make(map[*fastlimit.Rule]*ruleWatch)
		for _, r := range lim.Rules() {
			if w.rules[r] = old[r]; w.rules[r] == nil {
				w.rules[r] = &ruleWatch{rule: r, log: w.log}
			}
		}
	}
	for _, r := range lim.Rules() {
		w.rules[r].look(r.Stats(), lim.Now())
	}
}

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
			w.log.Warn("active exact buckets are evicted: there are more suspects than the table holds; raise memory",
				name, slog.Uint64("evictions", stats.Evictions))
		}
	case w.evicting && now-w.lastSeen >= evictionQuiet:
		w.evicting = false
		w.log.Info("active exact buckets are no longer evicted", name, slog.Uint64("evictions", stats.Evictions))
	}
}
