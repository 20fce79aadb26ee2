package overrides

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
	"github.com/fastlimit/fastlimit/internal/operator"
	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/policy"
)

const (
	// firstRoom is how many clients the first tier of a limit has room for; each further one has room for
	// twice as many.
	firstRoom = 32
	// entryBytes is the most that an override takes, twice, since there are two engines while one is
	// replaced. Its record comes on top, as text and parsed, and its key in each engine
	// (TestLiveMemoryIsCounted).
	entryBytes = 1 << 10
)

// room is a tier, and how many of its clients are taken.
type room struct {
	tier    *fastlimit.Rule
	base    *fastlimit.Rule
	limit   fastlimit.Tier // without Clients
	clients int            // that it has room for
	taken   int
	bytes   int64
}

// tierPool holds the tiers of all live overrides. Used with Set.asking held.
type tierPool struct {
	rooms []*room
	bytes int64 // of the tiers, and of the overrides in force
	most  int64
}

// place finds room for the clients of an override, or makes some.
func (p *tierPool) place(e *entry, base *fastlimit.Rule) error {
	if e.free || e.placed != nil {
		return nil
	}
	tier, need := e.limit, e.need()
	tier.Clients = 0
	most := firstRoom / 2
	for _, r := range p.rooms {
		if r.base != base || r.limit != tier {
			continue
		}
		if r.taken+need <= r.clients {
			r.taken += need
			e.placed = r
			return nil
		}
		most = max(most, r.clients)
	}
	r, err := p.make(base, tier, max(need, min(2*most, limit.MaxLiveTierClients)), need)
	if err != nil {
		return err
	}
	r.taken = need
	e.placed = r
	return nil
}

// make makes a tier with room for that many clients or, if there is not enough memory for them, for only
// those that are needed.
func (p *tierPool) make(base *fastlimit.Rule, limit fastlimit.Tier, clients, need int) (*room, error) {
	limit.Clients = clients
	bytes, err := (*engine.Rule)(base).LiveTierBytes(limit)
	if err != nil {
		return nil, err
	}
	if p.bytes+bytes > p.most {
		if clients > need {
			return p.make(base, limit, need, need)
		}
		return nil, p.full()
	}
	t, err := (*engine.Rule)(base).NewTier(limit)
	if err != nil {
		return nil, err
	}
	limit.Clients = 0
	r := &room{tier: (*fastlimit.Rule)(t), base: base, limit: limit, clients: clients, bytes: bytes}
	p.rooms = append(p.rooms, r)
	p.bytes += bytes
	return r, nil
}

// noRoomError means that memory is used up.
type noRoomError struct{ used, most int64 }

func (e *noRoomError) Error() string {
	return fmt.Sprintf("live overrides use %d KiB of at most %d, an eighth of memory, on top of it; delete some, write them to the file, give more clients the same rate and burst, or raise memory",
		e.used>>10, e.most>>10)
}

func (p *tierPool) full() error { return &noRoomError{p.bytes, p.most} }

// release gives up an override's room. Its tier stays until sweep.
func (p *tierPool) release(e *entry) {
	if e.placed == nil {
		return
	}
	e.placed.taken -= e.need()
	e.placed = nil
}

// need is how many clients of a tier an override takes.
func (e *entry) need() int {
	if e.limit.Clients == 0 {
		return limit.MaxLiveTierClients
	}
	return min(max(1, e.limit.Clients), limit.MaxLiveTierClients)
}

// sweep drops unused tiers. No new request can get them by then.
func (p *tierPool) sweep() {
	left := p.rooms[:0]
	for _, r := range p.rooms {
		if r.taken > 0 {
			left = append(left, r)
			continue
		}
		(*engine.Rule)(r.base).DropTier((*engine.Rule)(r.tier))
		p.bytes -= r.bytes
	}
	clear(p.rooms[len(left):])
	p.rooms = left
}

// applyAll places the known overrides and makes requests be decided by them. Called with asking held.
func (s *Set) applyAll() {
	began := time.Now()
	e, err := s.place()
	if err != nil { // every key was checked
		s.config.Log.Error("live overrides: not applied", slog.Any("error", err))
		return
	}
	s.apply(e, s.tiers.live())
	s.tiers.sweep()
	s.mu.Lock()
	s.bytes = s.tiers.bytes
	s.mu.Unlock()
	s.dirty = false
	s.swaps.Add(1)
	s.rested = time.Now().Add(max(applyPause, applyShare*(s.took+time.Since(began))))
	s.took = 0
}

// place assigns tiers to the known overrides, and returns the engine that decides by them. Called with asking
// held.
func (s *Set) place() (*policy.Engine, error) {
	all, on := s.current(), s.rules()
	rules := on.limiter.Rules()
	p := &s.tiers
	p.bytes = 0
	for _, r := range p.rooms {
		p.bytes += r.bytes
	}
	var live []policy.LiveOverride
	shown := make([]*entry, len(all))
	for i, e := range all {
		next := *e
		if shown[i] = &next; next.deleted() || next.wrong != "" {
			continue
		}
		next.problem = ""
		if err := s.admit(&next, rules[next.rule], len(live)); err != nil {
			next.problem = operator.First(err)
		} else {
			o := policy.LiveOverride{Rule: next.rule, Key: next.value.Key}
			if next.placed != nil {
				o.Tier = next.placed.tier
			}
			live = append(live, o)
		}
	}
	e, err := on.engine.WithLive(on.policy, live)
	if err != nil {
		return nil, err // it names the rule
	}
	s.mu.Lock()
	s.entries = shown
	s.mu.Unlock()
	return e, nil
}

// admit gives an override its share of the memory and of max_overrides, if any is left next to n live ones.
func (s *Set) admit(e *entry, base *fastlimit.Rule, n int) error {
	p, cost := &s.tiers, int64(entryBytes+4*len(e.record.Value)+2*len(e.record.Name))
	on := s.rules()
	if most := cmp.Or(on.policy.MaxOverrides, policy.DefaultMaxOverrides); on.file+n >= most {
		p.release(e)
		return fmt.Errorf("there are already %d overrides, including those in the file: delete some, or raise max_overrides, which is %d", on.file+n, most)
	}
	if p.bytes+cost > p.most {
		p.release(e)
		return p.full()
	}
	if err := p.place(e, base); err != nil {
		return err
	}
	p.bytes += cost
	return nil
}

// live returns the tiers in use.
func (p *tierPool) live() (all []*fastlimit.Rule) {
	for _, r := range p.rooms {
		if r.taken > 0 {
			all = append(all, r.tier)
		}
	}
	return all
}
