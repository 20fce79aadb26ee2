package fastlimit

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/internal/machine"
	"github.com/fastlimit/fastlimit/internal/state"
)

// Save writes what the limiter knows of its clients, for [Load] after a restart: buckets,
// bans and denials that count towards one, sketches, the first-seen filter and the secret of
// the digests. Counters, top talkers, requests that wait and operations in flight are not
// among it. Whoever can read it can tell who the clients are and choose keys that collide, so
// keep it from others.
//
// It is for any time: requests go on meanwhile, and wait for no more than a set of a table
// being read. What they charge meanwhile may or may not be in it; all that was charged before the
// call is. Of what is refunded, reset or unbanned from then on, the state knows nothing.
// Tables and bans come first, then sketches, then the filter: requests mark, charge and take the other
// way round, so that also in the state who has a bucket is in the sketch, and who is in
// the sketch is marked.
//
// It writes pieces of about 64 KiB, and takes memory for the largest log of the rules that
// keep any, and for a copy of half of the filter. What is idle takes no room, but in the filter. The
// error is that of w.
func (l *Limiter) Save(w io.Writer) error {
	l.checkMade()
	return l.save(w, machine.Now())
}

// save is Save at that instant of the machine, which was read before.
func (l *Limiter) save(w io.Writer, at machine.Instant) error {
	f, err := frames.NewWriter(w, state.Magic, state.Version)
	if err != nil {
		return saveError(err)
	}
	s := &saving{limiter: l, w: f, now: l.clock.Late(l.clock.Now())}
	head, err := json.Marshal(s.header(at))
	if err != nil {
		return saveError(err)
	}
	for _, step := range [...]func() error{
		func() error { return f.Frame(state.Head, head) },
		func() error { return f.Frame(state.Secret, l.secret[:]) },
		s.tables, s.sketches, s.filter, f.End,
	} {
		if err := step(); err != nil {
			return saveError(err)
		}
	}
	return nil
}

func saveError(err error) error { return fmt.Errorf("fastlimit: write the state: %w", err) }

// saving is one Save.
type saving struct {
	limiter *Limiter
	w       *frames.Writer
	now     time.Duration
	live    [][]*Rule // of each rule, as they were when it began
	buf     []byte
}

// header notes what the limiter is, and when.
func (s *saving) header(at machine.Instant) *state.Header {
	l := s.limiter
	h := &state.Header{
		At: at, Now: s.now, Manual: l.manual != nil, Wall: l.clock.WallTime(s.now), StoreTimeout: l.plan.StoreTimeout,
	}
	if l.filter != nil {
		h.Window, h.FilterWords = l.plan.Window, l.plan.FilterWords
	}
	for i, r := range l.rules {
		rp := &l.plan.Rules[i]
		h.Shared, h.Nodes = r.shared != nil, l.plan.Nodes
		sr := state.Rule{Config: r.config, Sets: rp.Sets}
		if r.sketch != nil {
			sr.Blocks = rp.Blocks
		}
		if r.bans != nil {
			sr.Bans = rp.Bans
		}
		for k := range rp.Tiers {
			sr.Tiers = append(sr.Tiers, rp.Tiers[k].Sets)
		}
		live := r.live.load()
		for _, t := range live {
			sr.Live = append(sr.Live, state.Tier{Tier: Tier{Rate: t.config.Rate, Burst: t.config.Burst}, Sets: t.buckets.Table.Buckets() / 4})
		}
		s.live = append(s.live, live)
		h.Rules = append(h.Rules, sr)
	}
	return h
}

// tables writes the buckets of each rule and its tiers, and its bans.
func (s *saving) tables() error {
	for i, r := range s.limiter.rules {
		all := append(append([]*Rule{r}, r.tiers...), s.live[i]...)
		for k, t := range all {
			if err := s.buckets(t, i, k); err != nil {
				return err
			}
		}
		if r.bans == nil {
			continue
		}
		err := s.pieces(state.Bans, func(dst []byte, from int) ([]byte, int) {
			return r.bans.AppendState(dst, &r.config.Ban, from, s.now)
		}, i)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *saving) buckets(t *Rule, i, k int) error {
	read := t.buckets.Table.Save(t.buckets.Ticks(s.now))
	defer read.End()
	return s.pieces(state.Buckets, func(dst []byte, from int) ([]byte, int) {
		dst, more := read.Append(dst)
		if !more {
			return dst, 0
		}
		return dst, from + 1
	}, i, k)
}

func (s *saving) sketches() error {
	for i, r := range s.limiter.rules {
		if r.sketch == nil {
			continue
		}
		err := s.pieces(state.Sketch, func(dst []byte, from int) ([]byte, int) {
			return r.sketch.AppendState(dst, from, r.buckets.SketchTicks(s.now))
		}, i)
		if err != nil {
			return err
		}
	}
	return nil
}

// pieces writes frames of which each begins with the numbers of what it belongs to.
func (s *saving) pieces(kind byte, appendPiece func(dst []byte, from int) ([]byte, int), of ...int) error {
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

// filter writes when the filter turns, and then what it knows.
func (s *saving) filter() error {
	if s.limiter.filter == nil {
		return nil
	}
	marks := s.limiter.filter.State()
	if err := s.w.Frame(state.Filter, binary.AppendUvarint(nil, uint64(marks.Due))); err != nil {
		return err
	}
	w := &state.MarksWriter{To: s.w}
	if _, err := marks.WriteTo(w); err != nil {
		return err
	}
	return w.Flush()
}
