package fastlimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
)

// Why a state is of no use, for errors.Is. Nothing but that is wrong: go on without it.
var (
	// ErrStateForeign tells that the file is no state at all.
	ErrStateForeign = frames.ErrForeign
	// ErrStateVersion tells that it is of a version that this one does not know.
	ErrStateVersion = frames.ErrVersion
	// ErrStateTorn tells that it ends too early.
	ErrStateTorn = frames.ErrTorn
	// ErrStateDamaged tells that a checksum is wrong, or that what it vouches for has no
	// meaning.
	ErrStateDamaged = frames.ErrDamaged
	// ErrStateMachine tells that it was written on another machine.
	ErrStateMachine = machine.ErrOtherMachine
	// ErrStateFuture tells that it was written later than now, by a clock that was set back.
	ErrStateFuture = machine.ErrFuture
	// ErrStateTooLarge tells that the limiter takes more than [LoadOptions].Memory.
	ErrStateTooLarge = errors.New("larger than the memory for it")
	// ErrStateTooOld tells that its time line comes to an end: see [Limiter.LastTime].
	ErrStateTooOld = errors.New("its clock has run for too long")
)

// DefaultLoadMemory is [LoadOptions].Memory if that is 0.
const DefaultLoadMemory = 1 << 30

// LoadOptions are for [Load].
type LoadOptions struct {
	// Memory is what the limiter may take at most, in bytes. 0 means
	// DefaultLoadMemory.
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
// what has leaked meanwhile. A state for which that cannot be said is refused. The error wraps one of the
// ErrState… above, or it is that of r.
func Load(r io.Reader, o LoadOptions) (*Limiter, error) {
	if o.Memory == 0 {
		o.Memory = DefaultLoadMemory
	}
	return load(r, o, machine.Now)
}

// load is Load on a machine whose clocks now reads.
func load(r io.Reader, o LoadOptions, now func() machine.Instant) (*Limiter, error) {
	f, err := frames.NewReader(r, stateMagic, stateVersion)
	if err != nil {
		return nil, stateErr("read", err)
	}
	s := &loading{options: o, r: f}
	for _, step := range [...]func() error{s.next, s.header, func() error { return s.begin(now) }, s.frames} {
		if err := step(); err != nil {
			return nil, stateErr("read", err)
		}
	}
	return s.limiter, nil
}

// loading is one Load.
type loading struct {
	options LoadOptions
	r       *frames.Reader
	head    stateHeader
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

func (s *loading) header() error {
	if s.kind != frameHeader {
		return fmt.Errorf("%w: it has no header", ErrStateDamaged)
	}
	d := json.NewDecoder(bytes.NewReader(s.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&s.head); err != nil {
		return fmt.Errorf("%w: its header: %w", ErrStateDamaged, err)
	}
	if s.head.Now < 0 || s.head.Wall < 0 {
		return fmt.Errorf("%w: its header: a time before its begin", ErrStateDamaged)
	}
	if s.head.Manual != (s.options.Clock != nil) {
		return &FieldError{Package: "fastlimit", Field: "LoadOptions.Clock", Problem: "not of the kind that the saved limiter had", Fix: "bring a ManualClock if that had one, else nil"}
	}
	return s.next()
}

// begin makes the limiter, empty, at its time.
func (s *loading) begin(now func() machine.Instant) error {
	if s.kind != frameSecret || len(s.body) != 32 {
		return fmt.Errorf("%w: it has no secret", ErrStateDamaged)
	}
	plan, c, err := s.head.plan(s.options.Memory)
	if err != nil {
		return err
	}
	copy(c.Secret[:], s.body)
	at, age := time.Now(), time.Duration(0)
	if s.head.Manual {
		c.Clock = s.options.Clock
	} else if age, err = now().Since(s.head.At); err != nil {
		return err
	}
	// Half of what is left is for the next process, which saves it again.
	if end, _ := endOf(plan.Rules); s.head.Now > end.At/2 || age > end.At/2-s.head.Now {
		return fmt.Errorf("%w: %v and %v, and %s", ErrStateTooOld, s.head.Now, age, end.Rule)
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
		if err := s.liveTiers(r, &s.head.Rules[i], &all); err != nil {
			return err
		}
		s.tables = append(s.tables, all)
	}
	return s.next()
}

// noStore stands for the store of a limiter that was saved. It is always away.
type noStore struct{}

func (noStore) Runs(bucket.Algorithm) bool  { return true }
func (noStore) Submit(*bucket.Op) error     { return bucket.ErrAway }
func (noStore) Close(context.Context) error { return nil }
