package decide

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/policy"
)

// Settings are everything that a reload may change.
type Settings struct {
	Limiter  *fastlimit.Limiter
	Engine   *policy.Engine
	Identity *policy.Identity

	Batches   bool       // POST /v1/decide is served on traffic listeners
	Listeners []Listener // as they answer
}

// Listener is how one listener answers.
type Listener struct {
	denial.Options      // of the denials by a rule
	Always         bool // what is known of a limit is shown on admissions too
}

// Snapshot is what requests are decided by: limiter, lists, keys, identity, and
// all answers, rendered beforehand. Its settings and
// answers are immutable; it is safe for concurrent use.
//
// What every request reads stands together, partly as copies: between two requests
// kernel work evicts our cache lines, and this makes them fewer.
type Snapshot struct {
	engine   policy.Engine   // a copy
	identity policy.Identity // a copy
	batches  bool
	always   bool   // some listener shows limits on admissions
	denials  []deny // by rule, then listener; see denial
	states   states

	listeners       int
	allowed, listed rendered
	settings        Settings
}

// deny is the answer to those whom a rule denies on a listener.
type deny struct {
	answer   *denial.Answer
	rendered rendered // without body and its length where these vary
	always   bool     // the answer is for those whom the rule admits, too
	enforced bool     // the rule is
}

// NewSnapshot renders all answers. The settings must not be changed any more.
func NewSnapshot(s Settings) *Snapshot {
	snap := &Snapshot{engine: *s.Engine, identity: *s.Identity, batches: s.Batches, listeners: len(s.Listeners), settings: s}
	snap.allowed, snap.listed = renderAnswers()
	snap.states.pool.New = newState
	for _, r := range s.Limiter.Rules() {
		config := r.Config()
		for _, l := range s.Listeners {
			a := denial.New(config, l.Options)
			snap.denials = append(snap.denials, deny{a, renderDenial(a), l.Always, config.Mode == fastlimit.Enforce})
			snap.always = snap.always || l.Always
		}
	}
	return snap
}

// denial is the answer to those whom a rule denies on a listener.
func (s *Snapshot) denial(rule, listener int) *deny { return &s.denials[rule*s.listeners+listener] }

// Settings returns what the snapshot was made of. Do not change it.
func (s *Snapshot) Settings() *Settings { return &s.settings }
