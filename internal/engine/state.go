package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/internal/state"
	"github.com/fastlimit/fastlimit/limit"
)

// Save is fastlimit.Limiter.Save.
func (l *Limiter) Save(w io.Writer) error {
	l.checkMade()
	return l.save(w, machine.Now())
}

// save is Save with an instant of the machine that was read before.
func (l *Limiter) save(w io.Writer, at machine.Instant) error {
	now := l.clock.Late(l.clock.Now())
	h, p := l.state(now)
	h.At = at
	if err := state.Write(w, h, &l.secret, p, now); err != nil {
		return fmt.Errorf("fastlimit: write the state: %w", err)
	}
	return nil
}

// state returns the limiter's header and state as of now.
func (l *Limiter) state(now time.Duration) (*state.Header, *state.Parts) {
	h := &state.Header{Now: now, Manual: l.manual != nil, Wall: l.clock.WallTime(now), StoreTimeout: l.plan.StoreTimeout}
	p := &state.Parts{Filter: l.filter}
	if l.filter != nil {
		h.Window, h.FilterWords = l.plan.Window, l.plan.FilterWords
	}
	for i, r := range l.rules {
		rp := &l.plan.Rules[i]
		h.Shared, h.Nodes = r.shared != nil, l.plan.Nodes
		sr := state.Rule{Config: r.config, Sets: rp.Sets}
		known := state.RuleParts{Sketch: r.sketch, Now: r.buckets.SketchTicks(now), Tables: []state.Table{r.table(now)}}
		if r.sketch != nil {
			sr.Blocks = rp.Blocks
		}
		if r.bans != nil {
			sr.Bans, known.Bans, known.Policy = rp.Bans, r.bans, &r.config.Ban
		}
		for k, t := range r.tiers {
			sr.Tiers, known.Tables = append(sr.Tiers, rp.Tiers[k].Sets), append(known.Tables, t.table(now))
		}
		for _, t := range r.live.load() {
			live := state.Tier{Tier: limit.Tier{Rate: t.config.Rate, Burst: t.config.Burst}, Sets: t.buckets.Table.Buckets() / 4}
			sr.Live, known.Tables = append(sr.Live, live), append(known.Tables, t.table(now))
		}
		h.Rules, p.Rules = append(h.Rules, sr), append(p.Rules, known)
	}
	return h, p
}

func (r *Rule) table(now time.Duration) state.Table {
	return state.Table{Table: &r.buckets.Table, Now: r.buckets.Ticks(now)}
}

// ErrState is the error of a state that cannot be taken over: it is not one, of another version or machine,
// torn, damaged, too large, too old or from the future. It stands for nothing else.
var ErrState = errors.New("not a state that can be taken over")

// unfitError is an [ErrState].
type unfitError struct{ error }

func (e unfitError) Is(target error) bool { return target == ErrState }
func (e unfitError) Unwrap() error        { return e.error }

// LoadOptions are for [Load].
type LoadOptions struct {
	// Memory is the most that the limiter may take, in bytes. 0 means 1 GiB.
	Memory int64

	// Clock is the clock for the new limiter, if the saved one had a [ManualClock]. It is set to the time of
	// the state unless it is later: its owner knows how old the state is. Otherwise it must be nil.
	Clock *ManualClock
}

// Load is fastlimit.Load.
func Load(r io.Reader, o LoadOptions) (*Limiter, error) {
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	return load(r, o, machine.Now)
}

// load is Load on a machine whose clocks now reads.
func load(r io.Reader, o LoadOptions, now func() machine.Instant) (*Limiter, error) {
	l, err := restore(r, o, now)
	if err == nil {
		return l, nil
	}
	if err = fmt.Errorf("fastlimit: read the state: %w", err); state.Unfit(err) {
		err = unfitError{err}
	}
	return nil, err
}

func restore(from io.Reader, o LoadOptions, now func() machine.Instant) (*Limiter, error) {
	s, err := state.Open(from)
	if err != nil {
		return nil, err
	}
	h := s.Header
	if h.Manual != (o.Clock != nil) {
		return nil, &limit.FieldError{Package: "fastlimit", Field: "LoadOptions.Clock", Problem: "not of the kind that the saved limiter had", Fix: "bring a ManualClock if that had one, else nil"}
	}
	plan, live, err := h.Plan(o.Memory)
	if err != nil {
		return nil, err
	}
	c := &Config{StoreTimeout: h.StoreTimeout, Nodes: h.Nodes, Secret: s.Secret, Clock: o.Clock}
	if h.Shared {
		c.Store = noStore{}
	}
	at, age := time.Now(), time.Duration(0)
	if !h.Manual {
		if age, err = now().Since(h.At); err != nil {
			return nil, err
		}
	}
	// Half of what is left is for the next process, which saves it again.
	if end, _ := endOf(plan.Rules); h.Now > end.At/2 || age > end.At/2-h.Now {
		return nil, fmt.Errorf("%w: %v and %v, and %s", machine.ErrTooOld, h.Now, age, end.Rule)
	}
	l, err := newLimiter(plan, c, nil)
	if err != nil {
		return nil, err
	}
	l.clock.Resume(at, h.Now, age, h.Wall, c.Store != nil)
	for i, r := range l.rules {
		if err := r.restoreLiveTiers(live[i]); err != nil {
			return nil, err
		}
	}
	_, parts := l.state(0)
	return l, s.Restore(parts)
}

// restoreLiveTiers remakes the rule's tiers from NewTier.
func (r *Rule) restoreLiveTiers(plans []limit.RulePlan) error {
	c := r.storeConfig()
	var live []*Rule
	for i := range plans {
		t, err := r.newTier(len(r.tiers)+i, &plans[i], &c, nil)
		if err != nil {
			return err
		}
		live = append(live, t)
	}
	r.live.tiers.Store(&live)
	return nil
}

// noStore stands in for the store of a saved limiter. It is always away.
type noStore struct{}

func (noStore) Runs(bucket.Algorithm) bool  { return true }
func (noStore) Submit(*bucket.Op) error     { return bucket.ErrAway }
func (noStore) Close(context.Context) error { return nil }
