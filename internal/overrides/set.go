// Package overrides keeps the limits that operators give to a rule's clients while nodes run, on top of those
// in the configuration file.
//
// A [registry.Store] decides what is in force: each node asks it every second or two whether anything has
// changed, and then reads everything. A change is written there first and read back, so nodes agree on which
// of two came last. While the store is away the last known overrides stay, each until its end by this
// machine's monotonic clock; a store that has forgotten gets them back. Without a shared store there is one
// in memory.
//
// Overrides are applied by replacing the engine that decides requests. The limiter stays: an override's limit
// is a tier that is made when first needed (engine.Rule.NewTier), with room for a fixed number of clients;
// more clients of the same limit get another one. So a change affects only the clients it is for. They begin
// with an empty bucket when they get another limit: P2 is (r, B) of each limit while it is in force, which is
// at most one more burst per change. An override that is set again with the same limit continues. Back under
// the rule's limit, a client finds its old bucket there, drained by then.
package overrides

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/registry"
	"github.com/fastlimit/fastlimit/policy"
)

// Config configures a [Set]. Everything but Store and Talkers is required.
type Config struct {
	Policy  *policy.Settings // with the overrides of the file
	Limiter *fastlimit.Limiter
	Engine  *policy.Engine // of both

	Store registry.Store // nil: in memory
	Kept  string         // its name for people: "redis", or "this node" without

	// Talkers are names of a rule's clients, for keys in which a hash replaces a value
	// ([policy.Engine.RevealKey]), in addition to banned ones. Optional.
	Talkers func(rule string) []string

	// Memory bounds all live overrides together, in bytes.
	Memory int64

	Log *slog.Logger
}

// Registry is the name under which stores keep overrides.
const Registry = "overrides"

const (
	// pollLeast and pollMost bound the pause between two polls.
	pollLeast, pollMost = time.Second, 2 * time.Second
	// askTimeout bounds each poll.
	askTimeout = 2 * time.Second
	// applyShare is how long a node pauses for each second of reading and applying, so that endless changes
	// take at most a fifth of a core.
	applyShare = 4
	// applyPause is the shortest pause.
	applyPause = 10 * time.Millisecond
	// maxChanging bounds the changes in progress.
	maxChanging = 16
)

// Set is the live overrides of a node. Make it with [New]; all methods are safe for
// concurrent use.
type Set struct {
	config   Config // except what on has
	local    bool   // they are only in this process's memory
	apply    func(*policy.Engine, []*fastlimit.Rule)
	kick     chan struct{}
	changing chan struct{}

	asking sync.Mutex // held while the store is asked; guards what follows
	synced bool       // it has answered once
	mark   registry.Mark
	dirty  bool // not everything that was read is applied
	tiers  tierPool
	took   time.Duration // how long reading has taken since the last apply
	rested time.Time     // earliest time of the next apply

	mu      sync.Mutex // guards what follows; held briefly
	on      *rules     // the rules of entries; replaced as a whole, with asking held
	entries []*entry   // by rule, then name; replaced as a whole
	ignored int        // records that could not be read
	bytes   int64      // that they take
	next    *round     // the poll that callers of await wait for

	asked        atomic.Int64 // when the store last answered, since start
	start        time.Time
	failing      atomic.Bool
	errors       atomic.Uint64
	swaps        atomic.Uint64
	loggedBroken atomic.Bool
}

// round is one poll of the store, with its result applied.
type round struct {
	done chan struct{}
	err  error
}

// New returns an empty set: call Start.
func New(c Config) *Set {
	local := c.Store == nil
	if local {
		c.Store = new(registry.Memory)
	}
	s := &Set{
		config: c, local: local, on: newRules(&c), kick: make(chan struct{}, 1), changing: make(chan struct{}, maxChanging),
		next: &round{done: make(chan struct{})}, start: time.Now(),
	}
	s.tiers.most = c.Memory
	s.config.Policy, s.config.Limiter, s.config.Engine = nil, nil, nil // see on, which Follow replaces
	return s
}

// Start asks the store, so that overrides are in force before the first request, and then keeps asking until
// ctx ends. apply makes new requests be decided by an engine, whose live tiers are all passed; one goroutine
// at a time calls it. A store that is away is logged, and asked again.
func (s *Set) Start(ctx context.Context, apply func(*policy.Engine, []*fastlimit.Rule)) (stopped <-chan struct{}) {
	s.apply = apply
	s.step(ctx)
	end := make(chan struct{})
	go func() {
		defer close(end)
		s.loop(ctx)
	}()
	return end
}

func (s *Set) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-time.After(s.pause()):
		}
		if rest := time.Until(s.rested); rest > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
		}
		s.step(ctx)
	}
}

// pause is the time until the next poll, or the end of an override.
func (s *Set) pause() time.Duration {
	d := pollLeast + rand.N(pollMost-pollLeast) // spreads nodes, hides nothing
	for _, e := range s.current() {
		if e.inForce() {
			d = min(d, max(0, time.Until(e.until)))
		}
	}
	return d
}

// step polls the store and applies what has changed since.
func (s *Set) step(ctx context.Context) {
	s.mu.Lock()
	r := s.next
	s.next = &round{done: make(chan struct{})}
	s.mu.Unlock()
	s.asking.Lock()
	r.err = s.ask(ctx)
	s.drop()
	if s.dirty {
		s.applyAll()
	}
	s.asking.Unlock()
	close(r.done)
}

// await waits until what the store has now is applied here.
func (s *Set) await(ctx context.Context) error {
	s.mu.Lock()
	r := s.next
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask reads the store's content if it has changed. Called with asking held.
func (s *Set) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at := time.Now()
	mark, err := s.config.Store.Mark(ctx)
	if err == nil && (!s.synced || mark != s.mark) {
		err = s.read(ctx, mark)
	}
	s.note(ctx, err)
	if err == nil {
		s.asked.Store(int64(at.Sub(s.start)))
	}
	return err
}

// read reads everything. A store that has lost something gets it back, and is read again.
func (s *Set) read(ctx context.Context, mark registry.Mark) error {
	at := time.Now()
	c, err := s.config.Store.Read(ctx)
	if err != nil {
		return err
	}
	if lost := s.lost(c, at, s.mark.Lost(mark)); len(lost) > 0 {
		s.config.Log.Warn("live overrides: the store has lost some; this node writes those that it knew again", slog.Int("known", len(lost)))
		if err = s.config.Store.Restore(ctx, lost); err != nil {
			return err
		}
		at = time.Now()
		if c, err = s.config.Store.Read(ctx); err != nil {
			return err
		}
	}
	s.mark, s.synced = c.Mark, true
	s.take(c, at)
	return nil
}

// lost returns what this node knows and a store read at that time lacks, or has an earlier version of. A
// restarted store has lost it. So has one that continued after a failover to a replica without it: while this
// node asks often enough, it would otherwise have seen the deletion, which is remembered for
// [registry.Grave].
func (s *Set) lost(c *registry.Contents, at time.Time, anew bool) (lost []registry.Record) {
	if since := at.Sub(s.start) - time.Duration(s.asked.Load()); !s.synced || !anew && since > registry.Grave/2 {
		return nil
	}
	has := make(map[string]uint64, len(c.Records))
	for _, r := range c.Records {
		has[r.Name] = r.Version
	}
	for _, r := range s.records() {
		if v, ok := has[r.Name]; (!ok || v < r.Version) && r.Left > pollMost { // an override about to end may already have ended there
			lost = append(lost, r)
		}
	}
	return lost
}

// note logs that the store does not answer, and that it does again, once each.
func (s *Set) note(ctx context.Context, err error) {
	switch {
	case err == nil && s.failing.Swap(false):
		s.config.Log.Info("live overrides: the store answers again")
	case err != nil && ctx.Err() != context.Canceled:
		s.errors.Add(1)
		if !s.failing.Swap(true) {
			s.config.Log.Warn("live overrides: the store does not answer; known overrides stay in force, each until its end", slog.Any("error", err))
		}
	}
}

func (s *Set) rules() *rules {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

func (s *Set) current() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries
}
