package decide

import (
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server/internal/latency"
)

// stages is how many stages there are.
var stages = len(limit.Stages())

// maxStages bounds them.
const maxStages = 8

// durations counts how long one of [latency.Every] requests takes: the one for which the state read the clock
// when it began ([Snapshot.begin]). Safe for concurrent use; the zero value is ready.
type durations struct {
	decisions       [maxStages]latency.Histogram // by stage
	allowed, denied latency.Histogram            // requests
}

// beginDecision reads the clock if the request is to be counted.
func (d *durations) beginDecision(r *requestState) (began time.Time) {
	if !r.began.IsZero() {
		began = time.Now()
	}
	return began
}

// endDecision counts the time that a decision took, including waiting for a slot or a store.
func (d *durations) endDecision(began time.Time, r *requestState) {
	if v := &r.verdict; !began.IsZero() && v.Refused == policy.NotRefused {
		d.decisions[v.Decision.Stage].Observe(time.Since(began))
	}
}

// endRequest counts the time until the answer was put together.
func (d *durations) endRequest(r *requestState) {
	if !r.began.IsZero() {
		w := latency.Begin(r.began, d.of(r.verdict.Decision.Allowed))
		w.Stop()
	}
}

// watch is for code that passes an admitted request on.
func (d *durations) watch(r *requestState) (w latency.Watch) {
	if !r.began.IsZero() {
		w = latency.Begin(r.began, d.of(true))
	}
	return w
}

func (d *durations) of(allowed bool) *latency.Histogram {
	if allowed {
		return &d.allowed
	}
	return &d.denied
}

// Durations are the durations of one of [latency.Every] requests.
type Durations struct {
	Decisions       []latency.Counts // by [fastlimit.Stage]
	Allowed, Denied latency.Counts   // requests
}

// Durations returns what was counted so far.
func (s *Service) Durations() Durations {
	d := Durations{Allowed: s.took.allowed.Counts(), Denied: s.took.denied.Counts()}
	for stage := range stages {
		d.Decisions = append(d.Decisions, s.took.decisions[stage].Counts())
	}
	return d
}
