package state

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/sketch"
)

// Write writes a state, as of now on the limiter's line. Requests may use the parts meanwhile.
//
// Tables and bans come first, then sketches, then the filter. Requests go the other way round, so a client
// with a bucket in the state is in its sketch too, and a client in the sketch is marked.
func Write(w io.Writer, h *Header, secret *sketch.Secret, p *Parts, now time.Duration) error {
	f, err := frames.NewWriter(w, Magic, Version)
	if err != nil {
		return err
	}
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	s := &writing{w: f, parts: p, now: now}
	for _, step := range [...]func() error{
		func() error { return f.Frame(kindHead, head) },
		func() error { return f.Frame(kindSecret, secret[:]) },
		s.tables, s.sketches, s.filter, f.End,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// writing is one Write.
type writing struct {
	w     *frames.Writer
	parts *Parts
	now   time.Duration
	buf   []byte
}

// tables writes the buckets of each rule and its tiers, and its bans.
func (s *writing) tables() error {
	for i := range s.parts.Rules {
		r := &s.parts.Rules[i]
		for k := range r.Tables {
			if err := s.buckets(&r.Tables[k], i, k); err != nil {
				return err
			}
		}
		if r.Bans == nil {
			continue
		}
		err := s.pieces(kindBans, func(dst []byte, from int) ([]byte, int) {
			return r.Bans.AppendState(dst, r.Policy, from, s.now)
		}, i)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *writing) buckets(t *Table, i, k int) error {
	read := t.Save(t.Now)
	defer read.End()
	return s.pieces(kindBuckets, func(dst []byte, from int) ([]byte, int) {
		dst, more := read.Append(dst)
		if !more {
			return dst, 0
		}
		return dst, from + 1
	}, i, k)
}

func (s *writing) sketches() error {
	for i := range s.parts.Rules {
		r := &s.parts.Rules[i]
		if r.Sketch == nil {
			continue
		}
		err := s.pieces(kindSketch, func(dst []byte, from int) ([]byte, int) {
			return r.Sketch.AppendState(dst, from, r.Now)
		}, i)
		if err != nil {
			return err
		}
	}
	return nil
}

// pieces writes frames, each beginning with the numbers of its owner.
func (s *writing) pieces(kind byte, appendPiece func(dst []byte, from int) ([]byte, int), of ...int) error {
	for from := 0; ; {
		s.buf = s.buf[:0]
		for _, n := range of {
			s.buf = binary.AppendUvarint(s.buf, uint64(n))
		}
		s.buf, from = appendPiece(s.buf, from)
		if err := s.w.Frame(kind, s.buf); err != nil {
			return err
		}
		if from == 0 {
			return nil
		}
	}
}

// filter writes the filter's next rotation, and then its marks.
func (s *writing) filter() error {
	if s.parts.Filter == nil {
		return nil
	}
	marks := s.parts.Filter.State()
	if err := s.w.Frame(kindFilter, binary.AppendUvarint(nil, uint64(marks.Due))); err != nil {
		return err
	}
	w := &marksWriter{To: s.w}
	if _, err := marks.WriteTo(w); err != nil {
		return err
	}
	return w.Flush()
}
