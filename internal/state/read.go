package state

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
)

// Unfit reports whether an error says that this is not a state that can be taken over: it is none, of another
// version or machine, torn, damaged, too large, too old or from the future.
func Unfit(err error) bool {
	for _, e := range [...]error{
		frames.ErrForeign, frames.ErrVersion, frames.ErrTorn, frames.ErrDamaged, frames.ErrTooLarge,
		machine.ErrOtherMachine, machine.ErrFuture, machine.ErrTooOld,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Reader reads a state: [Open] its header, then [Reader.Restore] the rest into a limiter made from the
// header.
type Reader struct {
	Header *Header
	Secret [32]byte

	r    *frames.Reader
	kind byte // the frame
	body []byte
	err  error // io.EOF after the last one
}

// Open reads the header of a state.
func Open(r io.Reader) (*Reader, error) {
	f, err := frames.NewReader(r, Magic, Version)
	if err != nil {
		return nil, err
	}
	s := &Reader{r: f}
	if err := s.expect(kindHead, "header"); err != nil {
		return nil, err
	}
	if s.Header, err = readHeader(s.body); err != nil {
		return nil, err
	}
	if err := s.expect(kindSecret, "secret"); err != nil {
		return nil, err
	}
	if len(s.body) != len(s.Secret) {
		return nil, damaged("it has no secret")
	}
	copy(s.Secret[:], s.body)
	return s, s.next()
}

func damaged(what string) error { return fmt.Errorf("%w: %s", frames.ErrDamaged, what) }

// expect reads the next frame, which must be of that kind.
func (s *Reader) expect(kind byte, what string) error {
	if err := s.next(); err != nil {
		return err
	}
	if s.err != nil || s.kind != kind {
		return damaged("it has no " + what)
	}
	return nil
}

func (s *Reader) next() error {
	s.kind, s.body, s.err = s.r.Next()
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// Restore reads the rest into empty parts that match the header.
func (s *Reader) Restore(p *Parts) error {
	filtered := p.Filter == nil
	for s.err == nil {
		var err error
		switch u := frames.Unpack(s.body); s.kind {
		case kindBuckets:
			err = p.restoreBuckets(u)
		case kindBans:
			err = p.restoreBans(u)
		case kindSketch:
			err = p.restoreSketch(u)
		case kindFilter:
			if filtered {
				return damaged("a filter")
			}
			err, filtered = s.restoreFilter(p, time.Duration(u.Uvarint())), true // checked by window.Filter
		default:
			return fmt.Errorf("%w: a frame of kind %d", frames.ErrDamaged, s.kind)
		}
		if err != nil {
			return err
		}
		if err = s.next(); err != nil {
			return err
		}
	}
	if !filtered {
		return damaged("it has no filter")
	}
	return nil
}

// rule returns the rule that a frame names.
func (p *Parts) rule(u *frames.Unpacker) *RuleParts {
	i := u.Uvarint()
	if i >= uint64(len(p.Rules)) {
		u.Fail()
		i = 0
	}
	return &p.Rules[i]
}

func (p *Parts) restoreBuckets(u *frames.Unpacker) error {
	r := p.rule(u)
	k := u.Uvarint()
	if k >= uint64(len(r.Tables)) {
		u.Fail()
	}
	if err := u.Err("of which rule buckets are"); err != nil {
		return err
	}
	return r.Tables[k].RestoreState(u.Rest())
}

func (p *Parts) restoreBans(u *frames.Unpacker) error {
	r := p.rule(u)
	if r.Bans == nil {
		u.Fail()
	}
	if err := u.Err("of which rule bans are"); err != nil {
		return err
	}
	return r.Bans.RestoreState(u.Rest())
}

func (p *Parts) restoreSketch(u *frames.Unpacker) error {
	r := p.rule(u)
	if r.Sketch == nil {
		u.Fail()
	}
	if err := u.Err("of which rule a sketch is"); err != nil {
		return err
	}
	return r.Sketch.RestoreState(u.Rest())
}

func (s *Reader) restoreFilter(p *Parts, due time.Duration) error {
	r := &marksReader{Next: s.marks}
	err := p.Filter.Restore(due, r)
	if r.Err != nil {
		return r.Err
	}
	if err == nil && r.More() {
		err = damaged("a filter")
	}
	return err
}

// marks returns the next frame, if it belongs to the filter.
func (s *Reader) marks() ([]byte, error) {
	if err := s.next(); err != nil || s.err != nil || s.kind != kindMarks {
		return nil, err
	}
	return s.body, nil
}
