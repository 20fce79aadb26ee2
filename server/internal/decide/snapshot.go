package decide

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/denial"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

// Settings are everything that a reload may change.
type Settings struct {
	Limiter  *fastlimit.Limiter
	Engine   *policy.Engine
	Identity *policy.Identity

	Batches   bool       // POST /v1/decide is served on traffic listeners
	IgnoreBad bool       // bad requests are charged to nobody
	Listeners []Listener // as they answer
}

// Listener is how one listener answers.
type Listener struct {
	denial.Options      // of the denials by a rule
	Always         bool // what is known of a limit is shown on admissions too

	Identity *policy.Identity // nil: Settings.Identity
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
	unread   *policy.Engine  // what bad requests are charged by; nil: nothing
	batches  bool
	waits    bool            // some rule lets requests wait
	asks     bool            // some decision may wait for a store
	always   bool            // some listener shows limits on admissions
	owes     bool            // some rule has costs from answers
	denials  []deny          // by rule, then listener; those of tiers follow; see denial
	banned   []deny          // by operators, by listener
	tiers    []int           // by rule: where its tiers begin among denials, in listeners; then their end
	live     [][]liveDenials // by rule, then what TierIndex adds to the tiers above; nil: none
	states   sync.Pool
	named    []atomic.Pointer[namedDenials] // by rule, then place of a rate that was named

	identities      []*policy.Identity // by listener; nil: all have identity
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
	snap := &Snapshot{engine: *s.Engine, identity: *s.Identity, batches: s.Batches, waits: s.Engine.Waits(), asks: s.Engine.Asks(), owes: s.Engine.Owes(), listeners: len(s.Listeners), settings: s}
	snap.setUnread()
	snap.allowed, snap.listed = renderAnswers()
	snap.setStates()
	snap.addIdentities()
	for _, l := range s.Listeners {
		a := denial.Banned(l.Options)
		snap.banned = append(snap.banned, deny{answer: a, rendered: renderDenial(a), enforced: true})
	}
	all := s.Limiter.Rules()
	for _, r := range all {
		snap.addDenials(r)
	}
	rows := len(all)
	snap.named = make([]atomic.Pointer[namedDenials], len(all)*limit.MaxNamedRates)
	for _, r := range all {
		snap.tiers = append(snap.tiers, rows)
		for i := range r.Config().Tiers {
			snap.addDenials(r.Tier(i))
			rows++
		}
	}
	snap.tiers = append(snap.tiers, rows)
	return snap
}

func (s *Snapshot) setUnread() {
	if !s.settings.IgnoreBad {
		s.unread = s.engine.Unread()
	}
}

// addIdentities adds those of listeners, if any has one of its own.
func (s *Snapshot) addIdentities() {
	own := func(l Listener) bool { return l.Identity != nil }
	if !slices.ContainsFunc(s.settings.Listeners, own) {
		return
	}
	for _, l := range s.settings.Listeners {
		s.identities = append(s.identities, cmp.Or(l.Identity, s.settings.Identity))
	}
}

// identityOf is who finds the clients of a listener.
func (s *Snapshot) identityOf(listener int) *policy.Identity {
	if s.identities == nil {
		return &s.identity
	}
	return s.identities[listener]
}

// addDenials adds what a rule, or a tier of one, answers.
func (s *Snapshot) addDenials(r *fastlimit.Rule) {
	s.denials = append(s.denials, s.renderDenials(r)...)
	for _, l := range s.settings.Listeners {
		s.always = s.always || l.Always
	}
}

// renderDenials renders what a rule answers on each listener.
func (s *Snapshot) renderDenials(r *fastlimit.Rule) (all []deny) {
	config := r.Config()
	for _, l := range s.settings.Listeners {
		a := denial.New(config, l.Options)
		all = append(all, deny{a, renderDenial(a), l.Always, config.Mode == fastlimit.Enforce})
	}
	return all
}

// liveDenials are the answers of a tier that is not one of the configuration's.
type liveDenials struct {
	tier *fastlimit.Rule // nil: there is none of that index
	on   []deny          // by listener
}

// WithEngine returns a snapshot that differs by its engine, of [policy.Engine.WithLive],
// and what that charges: tiers are all of its live ones. It renders the answers of those
// that s does not have. The lists and bans are those of s.
func (s *Snapshot) WithEngine(e *policy.Engine, tiers []*fastlimit.Rule) *Snapshot {
	snap := s.with(e.WithLists(s.engine.Lists()).WithBans(s.engine.Bans()))
	snap.live = make([][]liveDenials, len(s.tiers)-1)
	for _, t := range tiers {
		rule, at := (*engine.Rule)(t).Index(), s.liveIndex(t)
		for len(snap.live[rule]) <= at {
			snap.live[rule] = append(snap.live[rule], liveDenials{})
		}
		if s.live != nil && at < len(s.live[rule]) && s.live[rule][at].tier == t {
			snap.live[rule][at] = s.live[rule][at]
		} else {
			snap.live[rule][at] = liveDenials{t, s.renderDenials(t)}
		}
	}
	return snap
}

// WithLists returns a snapshot that differs by the allow and deny lists.
func (s *Snapshot) WithLists(l *policy.Lists) *Snapshot {
	snap := s.with(s.engine.WithLists(l))
	snap.live = s.live
	return snap
}

// WithBans returns a snapshot that differs by the operators' bans.
func (s *Snapshot) WithBans(b *policy.Bans) *Snapshot {
	snap := s.with(s.engine.WithBans(b))
	snap.live = s.live
	return snap
}

// with returns a snapshot with another engine of the same rules, and no live tiers.
func (s *Snapshot) with(e *policy.Engine) *Snapshot {
	snap := &Snapshot{
		engine: *e, identity: s.identity, batches: s.batches, waits: s.waits, asks: s.asks, always: s.always, owes: s.owes, denials: s.denials, banned: s.banned, tiers: s.tiers, named: s.named,
		identities: s.identities, listeners: s.listeners, allowed: s.allowed, listed: s.listed, settings: s.settings,
	}
	snap.settings.Engine = e
	snap.setUnread()
	snap.setStates()
	return snap
}

// liveIndex is the place of a tier among the live ones of its rule, below 0 for one of the
// configuration.
func (s *Snapshot) liveIndex(tier *fastlimit.Rule) int {
	rule := (*engine.Rule)(tier).Index()
	return (*engine.Rule)(tier).TierIndex() - (s.tiers[rule+1] - s.tiers[rule])
}

// namedDenials are the answers of a rule at a rate that a proxy has named. They are
// rendered when they are first needed, as nobody knows beforehand which rates there are,
// and replaced with the rule: see [fastlimit.Rule.AtRate].
type namedDenials struct {
	rule    *fastlimit.Rule
	denials []deny
}

func (s *Snapshot) namedDenial(rule *fastlimit.Rule, listener int) *deny {
	at := &s.named[(*engine.Rule)(rule).Index()*limit.MaxNamedRates+(*engine.Rule)(rule).NamedIndex()]
	n := at.Load()
	if n == nil || n.rule != rule {
		n = &namedDenials{rule, s.renderDenials(rule)}
		at.Store(n)
	}
	return &n.denials[listener]
}

// denial is the answer to those whom a rule denies on a listener.
func (s *Snapshot) denial(rule *fastlimit.Rule, listener int) *deny {
	row := (*engine.Rule)(rule).Index()
	if (*engine.Rule)(rule).NamedIndex() >= 0 {
		return s.namedDenial(rule, listener)
	}
	if tier := (*engine.Rule)(rule).TierIndex(); tier >= 0 {
		if i := s.liveIndex(rule); i >= 0 {
			return &s.live[row][i].on[listener]
		}
		row = s.tiers[row] + tier
	}
	return &s.denials[row*s.listeners+listener]
}

// denialOf is the answer to a denied request that is not on the deny list.
func (s *Snapshot) denialOf(v *policy.Verdict, listener int) *deny {
	if v.Rule == nil { // an operator has banned the client
		return &s.banned[listener]
	}
	return s.denial(v.Rule, listener)
}

// Settings returns what the snapshot was made of. Do not change it.
func (s *Snapshot) Settings() *Settings { return &s.settings }

// Lists are the allow and deny lists; nil if there are none.
func (s *Snapshot) Lists() *policy.Lists { return s.engine.Lists() }
