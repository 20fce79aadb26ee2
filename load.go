package fastlimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/internal/state"
	"github.com/fastlimit/fastlimit/limit"
)

// ErrState tells that what was read is no state to go on with: it is not one, of another version
// or machine, torn, damaged, too large, too old or from the future. Nothing but that is wrong.
var ErrState = errors.New("no state to go on with")

// unfit are the errors that are an [ErrState].
var unfit = [...]error{
	frames.ErrForeign, frames.ErrVersion, frames.ErrTorn, frames.ErrDamaged, frames.ErrTooLarge,
	machine.ErrOtherMachine, machine.ErrFuture, machine.ErrTooOld,
}

// unfitError is an [ErrState].
type unfitError struct{ error }

func (e unfitError) Is(target error) bool { return target == ErrState }
func (e unfitError) Unwrap() error        { return e.error }

// loadError is an error of Load.
func loadError(err error) error {
	text := fmt.Errorf("fastlimit: read the state: %w", err)
	for _, e := range unfit {
		if errors.Is(err, e) {
			return unfitError{text}
		}
	}
	return text
}

// LoadOptions are for [Load].
type LoadOptions struct {
	// Memory is what the limiter may take at most, in bytes. 0 means 1 GiB.
	Memory int64

	// Clock is that of the limiter, if the one that was saved had a [ManualClock]. It
	// is set to the time of the state, unless it is later: whoever has the clock knows how old
	// the state is. Otherwise it must be nil.
	Clock *ManualClock
}

// Load reads what [Limiter.Save] has written, to its end, and returns a limiter of the rules and
// sizes that were saved, whose time is that of the state and what has passed since. It has
// no store, no callbacks and no top talkers: it is there for [Limiter.With], which goes on with what
// it knows by a configuration of today, or for [Limiter.Merge].
//
// How much time has passed says the clock of this machine that counts on through
// suspension, or after the machine has been started anew its wall clock: no less than it was, so that nobody is denied for
// what has leaked meanwhile. A state for which that cannot be said is refused. The error is an
// [ErrState], or that of r.
func Load(r io.Reader, o LoadOptions) (*Limiter, error) {
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	return load(r, o, machine.Now)
}

// load is Load on a machine whose clocks now reads.
func load(r io.Reader, o LoadOptions, now func() machine.Instant) (*Limiter, error) {
	f, err := frames.NewReader(r, state.Magic, state.Version)
	if err != nil {
		return nil, loadError(err)
	}
	s := &loading{options: o, r: f}
	for _, step := range [...]func() error{s.next, s.header, func() error { return s.begin(now) }, s.frames} {
		if err := step(); err != nil {
			return nil, loadError(err)
		}
	}
	return s.limiter, nil
}

// loading is one Load.
type loading struct {
	options LoadOptions
	r       *frames.Reader
	head    *state.Header
	limiter *Limiter
	tables  [][]*bucket.Table // of each rule: its own, and its tiers'

	kind byte // the frame
	body []byte
	err  error // io.EOF after the last one
}

func (s *loading) next() error {
	s.kind, s.body, s.err = s.r.Next()
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

func (s *loading) header() (err error) {
	if s.kind != state.Head {
		return fmt.Errorf("%w: it has no header", frames.ErrDamaged)
	}
	if s.head, err = state.ReadHeader(s.body); err != nil {
		return err
	}
	if s.head.Manual != (s.options.Clock != nil) {
		return &FieldError{Package: "fastlimit", Field: "LoadOptions.Clock", Problem: "not of the kind that the saved limiter had", Fix: "bring a ManualClock if that had one, else nil"}
	}
	return s.next()
}

// begin makes the limiter, empty, at its time.
func (s *loading) begin(now func() machine.Instant) error {
	if s.kind != state.Secret || len(s.body) != 32 {
		return fmt.Errorf("%w: it has no secret", frames.ErrDamaged)
	}
	plan, live, err := s.head.Plan(s.options.Memory)
	if err != nil {
		return err
	}
	c := &Config{StoreTimeout: s.head.StoreTimeout, Nodes: s.head.Nodes, Secret: [32]byte(s.body)}
	if s.head.Shared {
		c.Store = noStore{}
	}
	at, age := time.Now(), time.Duration(0)
	if s.head.Manual {
		c.Clock = s.options.Clock
	} else if age, err = now().Since(s.head.At); err != nil {
		return err
	}
	// Half of what is left is for the next process, which saves it again.
	if end, _ := endOf(plan.Rules); s.head.Now > end.At/2 || age > end.At/2-s.head.Now {
		return fmt.Errorf("%w: %v and %v, and %s", machine.ErrTooOld, s.head.Now, age, end.Rule)
	}
	if s.limiter, err = newLimiter(plan, c, nil); err != nil {
		return err
	}
	s.limiter.clock.Resume(at, s.head.Now, age, s.head.Wall, c.Store != nil)
	for i, r := range s.limiter.rules {
		all := []*bucket.Table{&r.buckets.Table}
		for _, t := range r.tiers {
			all = append(all, &t.buckets.Table)
		}
		if err := r.liveTiers(live[i], &all); err != nil {
			return err
		}
		s.tables = append(s.tables, all)
	}
	return s.next()
}

// frames reads what was known.
func (s *loading) frames() error {
	filtered := s.limiter.filter == nil
	for s.err == nil {
		var err error
		switch u := frames.Unpack(s.body); s.kind {
		case state.Buckets:
			err = s.buckets(u)
		case state.Bans:
			err = s.bans(u)
		case state.Sketch:
			err = s.sketch(u)
		case state.Filter:
			if filtered {
				err = fmt.Errorf("%w: a filter", frames.ErrDamaged)
				break
			}
			err, filtered = s.filter(time.Duration(u.Uvarint())), true // checked by Restore
		default:
			err = fmt.Errorf("%w: a frame of kind %d", frames.ErrDamaged, s.kind)
		}
		if err != nil {
			return err
		}
		if err = s.next(); err != nil {
			return err
		}
	}
	if !filtered {
		return fmt.Errorf("%w: it has no filter", frames.ErrDamaged)
	}
	return nil
}

// rule is the rule that a frame begins with.
func (s *loading) rule(u *frames.Unpacker) (i uint64, r *Rule) {
	if i = u.Uvarint(); i >= uint64(len(s.limiter.rules)) {
		u.Fail()
		return 0, s.limiter.rules[0]
	}
	return i, s.limiter.rules[i]
}

func (s *loading) buckets(u *frames.Unpacker) error {
	i, _ := s.rule(u)
	k := u.Uvarint()
	if k >= uint64(len(s.tables[i])) {
		u.Fail()
	}
	if err := u.Err("of which rule buckets are"); err != nil {
		return err
	}
	return s.tables[i][k].RestoreState(u.Rest())
}

func (s *loading) bans(u *frames.Unpacker) error {
	_, r := s.rule(u)
	if r.bans == nil {
		u.Fail()
	}
	if err := u.Err("of which rule bans are"); err != nil {
		return err
	}
	return r.bans.RestoreState(u.Rest())
}

func (s *loading) sketch(u *frames.Unpacker) error {
	_, r := s.rule(u)
	if r.sketch == nil {
		u.Fail()
	}
	if err := u.Err("of which rule a sketch is"); err != nil {
		return err
	}
	return r.sketch.RestoreState(u.Rest())
}

func (s *loading) filter(due time.Duration) error {
	r := &state.MarksReader{Next: s.marks}
	err := s.limiter.filter.Restore(due, r)
	if r.Err != nil {
		return r.Err
	}
	if err == nil && r.More() {
		err = fmt.Errorf("%w: a filter", frames.ErrDamaged)
	}
	return err
}

// marks is the next frame, if that is of the filter.
func (s *loading) marks() ([]byte, error) {
	if err := s.next(); err != nil || s.err != nil || s.kind != state.Marks {
		return nil, err
	}
	return s.body, nil
}

// liveTiers makes the tiers of NewTier that the rule had.
func (r *Rule) liveTiers(plans []limit.RulePlan, tables *[]*bucket.Table) error {
	c := r.storeConfig()
	var live []*Rule
	for i := range plans {
		t, err := r.newTier(len(r.tiers)+i, &plans[i], &c, nil)
		if err != nil {
			return err
		}
		live, *tables = append(live, t), append(*tables, &t.buckets.Table)
	}
	r.live.tiers.Store(&live)
	return nil
}

// noStore stands for the store of a limiter that was saved. It is always away.
type noStore struct{}

func (noStore) Runs(bucket.Algorithm) bool  { return true }
func (noStore) Submit(*bucket.Op) error     { return bucket.ErrAway }
func (noStore) Close(context.Context) error { return nil }
