// Package overrides keeps the limits that operators give to clients of a rule while nodes
// run, beside those of the configuration file.
//
// What holds is what a [registry.Store] has: each node asks it every second or two
// whether anything has changed, and reads all of it if so. A change is written there
// first and read back, so nodes agree on which of two came last. While the store cannot be
// asked the last that was known holds, each override until its end by this machine's
// monotonic clock; a store that has forgotten is told again. Without a store that nodes
// share there is one in memory.
//
// A set of overrides is applied by replacing the engine that requests are decided by. The
// limiter stays: a limit that an override has is a tier that is made when it is first
// needed (engine.Rule.NewTier), with room for a fixed number of clients; more
// clients of the same limit get another one. So a change touches the state of nobody but
// the clients it is for. Those begin with an empty bucket when they get another limit: P2
// is (r, B) of each limit for as long as it holds, which is at most one more burst for
// each change. An override that is set again with the same limit goes on. Back under the
// rule's limit a client finds its bucket there as it has drained.
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

// Config is what a [Set] works with. All but Store and Talkers is required.
type Config struct {
	Policy  *policy.Settings // with the overrides of the file
	Limiter *fastlimit.Limiter
	Engine  *policy.Engine // of both

	Store registry.Store // nil: in memory
	Kept  string         // where that is, for people: "redis", or "this node" without

	// Talkers are names of clients of a rule, for keys in which a hash stands for a value
	// ([policy.Engine.RevealKey]), beside those that are banned. Optional.
	Talkers func(rule string) []string

	// Memory bounds what all live overrides take, in bytes.
	Memory int64

	Log *slog.Logger
}

// Registry is the name under which stores keep overrides.
const Registry = "overrides"

const (
	// pollLeast and pollMost bound the pause between two questions.
	pollLeast, pollMost = time.Second, 2 * time.Second
	// askTimeout bounds each of them.
	askTimeout = 2 * time.Second
	// applyShare is how long a node rests for each second that it read and applied, so that
	// changes without end take a fifth of a core at most.
	applyShare = 4
	// applyPause is the least rest.
	applyPause = 10 * time.Millisecond
	// maxChanging bounds the changes that are being made at a time.
	maxChanging = 16
)

// Set is the live overrides of a node. Make it with [New]; all methods are safe for
// concurrent use.
type Set struct {
	config   Config // but for what on has
	local    bool   // they are in the memory of this process
	apply    func(*policy.Engine, []*fastlimit.Rule)
	kick     chan struct{}
	changing chan struct{}

	asking sync.Mutex // held by whoever asks the store; guards what follows
	synced bool       // it has answered once
	mark   registry.Mark
	dirty  bool // what was read is not applied yet
	tiers  tierPool
	took   time.Duration // how long reading what is not applied yet has worked
	rested time.Time     // when the next may be applied

	mu      sync.Mutex // guards what follows; held briefly
	on      *rules     // that entries are for; replaced as a whole, with asking held
	entries []*entry   // by rule, then name; replaced as a whole
	ignored int        // records that could not be read
	bytes   int64      // that they take
	next    *round     // what those who wait for a round wait for

	asked        atomic.Int64 // when the store last answered, since start
	start        time.Time
	failing      atomic.Bool
	errors       atomic.Uint64
	swaps        atomic.Uint64
	loggedBroken atomic.Bool
}

// round is one time of asking the store and applying what it has.
type round struct {
	done chan struct{}
	err  error
}

// New returns a set that holds nothing yet: call Start.
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

// Start asks the store, so that overrides hold before the first request, and then keeps
// asking until ctx ends. apply has requests that begin from then on decided by an engine,
// of which these are all the live tiers; it is called by one goroutine at a time. A store
// that is away is logged, and asked again.
func (s *Set) Start(ctx context.Context, apply func(*policy.Engine, []*fastlimit.Rule)) (stopped <-chan struct{}) {
	s.apply = apply
	s.round(ctx)
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
		s.round(ctx)
	}
}

// pause is the time to the next question, or to the end of an override.
func (s *Set) pause() time.Duration {
	d := pollLeast + rand.N(pollMost-pollLeast) // spreads nodes, hides nothing
	for _, e := range s.current() {
		if e.inForce() {
			d = min(d, max(0, time.Until(e.until)))
		}
	}
	return d
}

// round asks the store and applies what has changed since.
func (s *Set) round(ctx context.Context) {
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

// ask reads what the store has if that has changed. Called with asking held.
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

// read reads everything. A store that has lost something is told, and read again.
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

// lost is what this node knows and a store that was read at a time has not, or has an earlier
// version of. A store that has begun anew has lost it. So has one that has gone on, after a failover to
// a replica that had not got it: while this node asks it often enough it would have seen the
// deletion otherwise, which is remembered for [registry.Grave].
func (s *Set) lost(c *registry.Contents, at time.Time, anew bool) (lost []registry.Record) {
	if since := at.Sub(s.start) - time.Duration(s.asked.Load()); !s.synced || !anew && since > registry.Grave/2 {
		return nil
	}
	has := make(map[string]uint64, len(c.Records))
	for _, r := range c.Records {
		has[r.Name] = r.Version
	}
	for _, r := range s.records() {
		if v, ok := has[r.Name]; (!ok || v < r.Version) && r.Left > pollMost { // what is about to end may have ended there
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
