package lifecycle

import (
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit"
)

const (
	// Above overloaded a sketch makes too many clients suspects. It counts as recovered only below a lower
	// load, so that one near the threshold is reported once.
	overloaded, recovered = 0.5, 0.4

	// evictionQuiet is the time without evictions after which the next one is
	// logged again.
	evictionQuiet = time.Minute
)

// RuleWatch logs changes in the state of the rules, once each. Used by one goroutine.
type RuleWatch struct {
	Log *slog.Logger

	rules map[*fastlimit.Rule]*ruleWatch // of the last limiter
}

// Look checks the rules of a limiter; call it once a second. A rule that the last limiter had too is not
// reported again; removed rules are forgotten.
func (w *RuleWatch) Look(lim *fastlimit.Limiter) {
	last := w.rules
	w.rules = make(map[*fastlimit.Rule]*ruleWatch, len(last))
	for _, r := range lim.Rules() {
		one := last[r]
		if one == nil {
			one = &ruleWatch{log: w.Log.With(slog.String("rule", r.Name()))}
		}
		one.look(r.Stats(), lim.Now())
		w.rules[r] = one
	}
}

// ruleWatch is the last reported state of a rule.
type ruleWatch struct {
	log      *slog.Logger
	overload bool

	evictions uint64 // when they last grew
	evicting  bool
	lastSeen  time.Duration // the time when they last grew
}

func (w *ruleWatch) look(stats fastlimit.RuleStats, now time.Duration) {
	load := slog.Float64("load", stats.SketchLoad)
	switch {
	case !w.overload && stats.SketchLoad > overloaded:
		w.overload = true
		w.log.Warn("sketch overloaded: many clients are checked exactly; raise memory, or the rate of the rule", load)
	case w.overload && stats.SketchLoad < recovered:
		w.overload = false
		w.log.Info("sketch recovered", load)
	}
	evictions := slog.Uint64("evictions", stats.Evictions)
	switch {
	case stats.Evictions > w.evictions:
		w.evictions, w.lastSeen = stats.Evictions, now
		if !w.evicting {
			w.evicting = true
			w.log.Warn("active exact buckets are evicted: there are more suspects than the table holds; raise memory", evictions)
		}
	case w.evicting && now-w.lastSeen >= evictionQuiet:
		w.evicting = false
		w.log.Info("active exact buckets are no longer evicted", evictions)
	}
}
