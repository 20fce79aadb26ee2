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

	Batches    bool  // POST /v1/decide is served on traffic listeners
	DenyStatus []int // of the denials by a rule, for each listener
}

// Snapshot is what requests are decided by: limiter, lists, keys, identity, and
// all answers, rendered beforehand. It is immutable and safe for concurrent use.
//
// What every request reads stands together, partly as copies: between two requests
// kernel work evicts our cache lines, and this makes them fewer.
type Snapshot struct {
	engine   policy.Engine   // a copy
	identity policy.Identity // a copy
	batches  bool
	denials  []deny // by rule, then listener; see denial

	listeners       int
	allowed, listed rendered
	settings        Settings
}

// deny is the answer to those whom a rule denies on a listener.
type deny struct {
	answer   *denial.Answer
	rendered rendered
}

// NewSnapshot renders all answers. The settings must not be changed any more.
func NewSnapshot(s Settings) *Snapshot {
	snap := &Snapshot{engine: *s.Engine, identity: *s.Identity, batches: s.Batches, listeners: len(s.DenyStatus), settings: s}
	snap.allowed, snap.listed = renderAnswers()
	for _, r := range s.Limiter.Rules() {
		for _, status := range s.DenyStatus {
			a := denial.New(r.Config(), status)
			snap.denials = append(snap.denials, deny{a, renderDenial(a)})
		}
	}
	return snap
}

// denial is the answer to those whom a rule denies on a listener.
func (s *Snapshot) denial(rule, listener int) *deny { return &s.denials[rule*s.listeners+listener] }

// Settings returns what the snapshot was made of. Do not change it.
func (s *Snapshot) Settings() *Settings { return &s.settings }
