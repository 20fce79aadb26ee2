package overrides

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/policy"
)

// rules are the rules that overrides belong to. Immutable.
type rules struct {
	policy  *policy.Settings
	limiter *fastlimit.Limiter
	engine  *policy.Engine // of both, without live overrides
	byName  map[string]int
	file    int // overrides of the file
}

func newRules(c *Config) *rules {
	on := &rules{policy: c.Policy, limiter: c.Limiter, engine: c.Engine, byName: map[string]int{}}
	for i, r := range c.Limiter.Rules() {
		on.byName[r.Name()] = i
		on.file += len(c.Policy.Rules[i].Overrides)
	}
	return on
}

// Follow switches the set to other rules: Policy, Limiter, Engine and Memory of c. use makes requests be
// decided by an engine of these with the live overrides, whose tiers are all in tiers; if it returns an error
// nothing has changed. Clients of an override keep their buckets if its rule keeps its state and the override
// its limit.
func (s *Set) Follow(c Config, use func(e *policy.Engine, tiers []*fastlimit.Rule) error) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	next := s.following(&c)
	e, err := next.place()
	if err == nil {
		err = use(e, next.tiers.live())
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.entries, s.bytes = next.on, next.entries, next.tiers.bytes
	s.tiers, s.dirty = next.tiers, false
	s.swaps.Add(1)
	return nil
}

// following returns a set with the same overrides for other rules, without places yet. Called with asking
// held.
func (s *Set) following(c *Config) *Set {
	next := &Set{config: s.config, on: newRules(c)}
	next.tiers.most = c.Memory
	moved := map[*room]*room{nil: nil}
	for _, r := range s.tiers.rooms {
		moved[r] = next.tiers.move(r, next.on)
	}
	for _, e := range s.current() {
		again, err := next.parse(e.record, e.until)
		if err != nil {
			continue // it has already been read
		}
		again.until = e.until
		if r := moved[e.placed]; r != nil && again.wrong == "" && !again.free && next.tiers.fits(r, again, next.on) {
			again.placed = r
			r.taken += again.need()
		}
		next.entries = append(next.entries, again)
	}
	return next
}

// move makes a room's tier again, with its predecessor's buckets where possible. It returns nil if there is
// no such rule, or no memory.
func (p *tierPool) move(r *room, on *rules) *room {
	i, ok := on.byName[r.base.Name()]
	if !ok {
		return nil
	}
	base, limit := on.limiter.Rules()[i], r.limit
	limit.Clients = r.clients
	bytes, err := (*engine.Rule)(base).LiveTierBytes(limit)
	if err != nil || p.bytes+bytes > p.most {
		return nil
	}
	t, err := (*engine.Rule)(base).ContinueTier((*engine.Rule)(r.tier), limit)
	if err != nil {
		return nil
	}
	next := &room{tier: (*fastlimit.Rule)(t), base: base, limit: r.limit, clients: r.clients, bytes: bytes}
	p.rooms = append(p.rooms, next)
	p.bytes += bytes
	return next
}

// fits reports whether a room suits an override and has enough space left.
func (p *tierPool) fits(r *room, e *entry, on *rules) bool {
	limit := e.limit
	limit.Clients = 0
	return r.base == on.limiter.Rules()[e.rule] && r.limit == limit && r.taken+e.need() <= r.clients
}
