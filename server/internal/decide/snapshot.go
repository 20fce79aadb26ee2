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
	Listeners []Listener // how they answer
}

// Listener is how one listener answers.
type Listener struct {
	denial.Options      // of the denials by a rule
	Always         bool // what is known of a limit is shown on admissions too

	Identity *policy.Identity // nil: Settings.Identity
}

// Snapshot decides requests: limiter, lists, keys, identity, and all answers, rendered in advance. Its
// settings and answers are immutable; it is safe for concurrent use.
//
// Fields that every request reads are adjacent, some as copies, which makes fewer cache lines: kernel work
// between two requests evicts them.
type Snapshot struct {
	engine   policy.Engine   // a copy
	identity policy.Identity // a copy
	unread   *policy.Engine  // charges bad requests; nil: nothing does
	batches  bool
	waits    bool            // some rule lets requests wait
	asks     bool            // some decision may wait for a store
	always   bool            // some listener shows limits on admissions
	owes     bool            // some rule takes costs from answers
	denials  []deny          // by rule, then listener; those of tiers follow; see denial
	banned   []deny          // for operators' bans, by listener
	tiers    []int           // by rule: where its tiers begin among denials, in listeners; then their end
	live     [][]liveDenials // by rule, then TierIndex beyond the tiers above; nil: none
	states   sync.Pool
	named    []atomic.Pointer[namedDenials] // by rule, then slot of a named rate

	identities      []*policy.Identity // by listener; nil: all use identity
	listeners       int
	allowed, listed rendered
	settings        Settings
}

// deny is the answer to those whom a rule denies on a listener.
type deny struct {
	answer   *denial.Answer
	rendered rendered // without body and its length if these vary
	always   bool     // the answer is also for admitted clients
	enforced bool     // the rule is enforced
}

// NewSnapshot renders all answers. The settings must not be changed afterwards.
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

// addIdentities adds the listeners' identities, if any has one of its own.
func (s *Snapshot) addIdentities() {
	own := func(l Listener) bool { return l.Identity != nil }
	if !slices.ContainsFunc(s.settings.Listeners, own) {
		return
	}
	for _, l := range s.settings.Listeners {
		s.identities = append(s.identities, cmp.Or(l.Identity, s.settings.Identity))
	}
}

// identityOf returns the identity for a listener.
func (s *Snapshot) identityOf(listener int) *policy.Identity {
	if s.identities == nil {
		return &s.identity
	}
	return s.identities[listener]
}

// addDenials adds the answers of a rule or tier.
func (s *Snapshot) addDenials(r *fastlimit.Rule) {
	s.denials = append(s.denials, s.renderDenials(r)...)
	for _, l := range s.settings.Listeners {
		s.always = s.always || l.Always
	}
}

// renderDenials renders a rule's answers on each listener.
func (s *Snapshot) renderDenials(r *fastlimit.Rule) (all []deny) {
	config := r.Config()
	for _, l := range s.settings.Listeners {
		a := denial.New(config, l.Options)
		all = append(all, deny{a, renderDenial(a), l.Always, config.Mode == fastlimit.Enforce})
	}
	return all
}

// liveDenials are the answers of a live tier.
type liveDenials struct {
	tier *fastlimit.Rule // nil: there is none of that index
	on   []deny          // by listener
}

// WithEngine returns a snapshot with another engine, from [policy.Engine.WithLive]; tiers are all its live
// tiers. It renders only answers that s does not have. The lists and bans are those of s.
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

// WithLists returns a snapshot with other allow and deny lists.
func (s *Snapshot) WithLists(l *policy.Lists) *Snapshot {
	snap := s.with(s.engine.WithLists(l))
	snap.live = s.live
	return snap
}

// WithBans returns a snapshot with other bans by operators.
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

// liveIndex is the index of a tier among the live ones of its rule, negative for one of the configuration.
func (s *Snapshot) liveIndex(tier *fastlimit.Rule) int {
	rule := (*engine.Rule)(tier).Index()
	return (*engine.Rule)(tier).TierIndex() - (s.tiers[rule+1] - s.tiers[rule])
}

// namedDenials are the answers of a rule at a rate that a proxy has named. They are rendered when first
// needed, as the rates are not known in advance, and replaced with the rule: see [fastlimit.Rule.AtRate].
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

// denial returns the answer to those whom a rule denies on a listener.
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

// denialOf returns the answer to a denied request that is not on the deny list.
func (s *Snapshot) denialOf(v *policy.Verdict, listener int) *deny {
	if v.Rule == nil { // an operator has banned the client
		return &s.banned[listener]
	}
	return s.denial(v.Rule, listener)
}

// Settings returns what the snapshot was made of. Do not change it.
func (s *Snapshot) Settings() *Settings { return &s.settings }

// Lists returns the allow and deny lists, or nil.
func (s *Snapshot) Lists() *policy.Lists { return s.engine.Lists() }
