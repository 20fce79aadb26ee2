package fastlimit

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/frames"
)

// frames reads what was known.
func (s *loading) frames() error {
	filtered := s.limiter.filter == nil
	for s.err == nil {
		var err error
		switch u := frames.Unpack(s.body); s.kind {
		case frameBuckets:
			err = s.buckets(u)
		case frameBans:
			err = s.bans(u)
		case frameSketch:
			err = s.sketch(u)
		case frameFilter:
			if filtered {
				err = fmt.Errorf("%w: a filter", ErrStateDamaged)
				break
			}
			err, filtered = s.filter(time.Duration(u.Uvarint())), true // checked by Restore
		default:
			err = fmt.Errorf("%w: a frame of kind %d", ErrStateDamaged, s.kind)
		}
		if err != nil {
			return err
		}
		if err = s.next(); err != nil {
			return err
		}
	}
	if !filtered {
		return fmt.Errorf("%w: it has no filter", ErrStateDamaged)
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
	r := &marksReader{s: s}
	err := s.limiter.filter.Restore(due, r)
	if r.err != nil {
		return r.err // says more than that it ends too early
	}
	if err == nil && len(r.left) > 0 {
		err = fmt.Errorf("%w: a filter", ErrStateDamaged)
	}
	return err
}

// liveTiers makes the tiers of [Rule.NewTier] that the rule had.
func (s *loading) liveTiers(r *Rule, sr *stateRule, tables *[]*bucket.Table) error {
	c := r.storeConfig()
	var live []*Rule
	for i := range sr.live {
		t, err := r.newTier(len(r.tiers)+i, &sr.live[i], &c, nil)
		if err != nil {
			return err
		}
		live, *tables = append(live, t), append(*tables, &t.buckets.Table)
	}
	r.live.tiers.Store(&live)
	return nil
}
