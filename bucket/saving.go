package bucket

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// Saving reads the buckets of a table while requests continue, for [Table.RestoreState].
// Each set is read once, under its lock. A bucket that moves into a set that was already
// read is recorded, or it could be missed. A move marks its set before it checks how far
// the reading is, and that is set before marks are read. So either the bucket is recorded
// or its set is seen to be in use. For one goroutine.
type Saving struct {
	t     *Table
	now   uint64
	next  int           // index of the next word of marks
	left  uint64        // marked sets of the previous word that are not read yet
	read  atomic.Uint64 // sets below it were read, or are about to be
	turn  bool          // whether it is the turn of recorded buckets
	noted []noted       // guarded by t.saves.mu
}

// noted is a bucket that has moved.
type noted struct {
	set   uint64
	place uint64 // without the set
	entry []byte
}

// saves are the unfinished savings of a table.
type saves struct {
	n   atomic.Int32
	mu  sync.Mutex
	all []*Saving // guarded by mu
}

// Save begins to read the buckets that have not drained at now. Call End after it.
func (t *Table) Save(now uint64) *Saving {
	s := &Saving{t: t, now: now}
	t.saves.mu.Lock()
	defer t.saves.mu.Unlock()
	t.saves.all = append(t.saves.all, s)
	t.saves.n.Add(1)
	return s
}

// End ends the saving, finished or not. It may be called again.
func (s *Saving) End() {
	all := s.t.saves
	all.mu.Lock()
	defer all.mu.Unlock()
	if i := slices.Index(all.all, s); i >= 0 {
		all.all = slices.Delete(all.all, i, i+1)
		all.n.Add(-1)
	}
}

// Append appends the next piece, about 64 KiB, and reports whether there are more.
func (s *Saving) Append(dst []byte) (state []byte, more bool) {
	dst = binary.AppendUvarint(dst, s.now)
	if s.turn = !s.turn; s.turn { // otherwise endless moves would keep it from the sets
		if moved := s.takeNoted(); len(moved) > 0 {
			return appendNoted(dst, moved), true
		}
	}
	t, last := s.t, uint64(0)
	for len(dst) < statePiece {
		if s.left == 0 {
			if s.next == len(t.marks) {
				s.End()
				return dst, s.anyNoted()
			}
			s.read.Store(uint64(s.next+1) * marksWord)
			w := atomic.LoadUint64(&t.marks[s.next])
			s.left = (w | w>>1) & markOfEach
			s.next++
			continue
		}
		at := uint64(s.next-1)*marksWord + uint64(bits.TrailingZeros64(s.left))/markBits
		s.left &= s.left - 1
		dst, last = t.appendSet(dst, at, last, s.now)
	}
	return dst, true
}

func (s *Saving) anyNoted() bool {
	s.t.saves.mu.Lock()
	defer s.t.saves.mu.Unlock()
	return len(s.noted) > 0
}

// takeNoted returns the buckets recorded since the last call.
func (s *Saving) takeNoted() []noted {
	s.t.saves.mu.Lock()
	defer s.t.saves.mu.Unlock()
	moved := s.noted
	s.noted = nil
	return moved
}

// noteLocked records the bucket that has moved to place i of set x for savings that have
// read x.
func (t *Table) noteLocked(x uint64, i int) {
	if t.saves.n.Load() == 0 {
		return
	}
	t.saves.mu.Lock()
	defer t.saves.mu.Unlock()
	for _, s := range t.saves.all {
		if x < s.read.Load() && t.liveAt(x, i, t.sets[x][i].tat, s.now) {
			s.noted = append(s.noted, noted{x, t.placeLocked(x, i), t.appendEntry(nil, x, i, s.now)})
		}
	}
}

func appendNoted(dst []byte, all []noted) []byte {
	slices.SortFunc(all, func(a, b noted) int { return cmp.Compare(a.set, b.set) })
	last := uint64(0)
	for _, n := range all {
		dst = binary.AppendUvarint(dst, (n.set-last)<<3|n.place)
		dst = append(dst, n.entry...)
		last = n.set
	}
	return dst
}

func (t *Table) appendSet(dst []byte, x, last, now uint64) ([]byte, uint64) {
	mu := t.lock(x)
	mu.Lock()
	defer mu.Unlock()
	for i := range t.sets[x] {
		if !t.liveAt(x, i, t.sets[x][i].tat, now) {
			continue
		}
		dst = binary.AppendUvarint(dst, (x-last)<<3|t.placeLocked(x, i))
		dst = t.appendEntry(dst, x, i, now)
		last = x
	}
	return dst, last
}

func (t *Table) placeLocked(x uint64, i int) uint64 {
	place := uint64(i) << 1 // below 4
	if t.guestLocked(x, i) {
		place |= 1
	}
	return place
}

func (t *Table) appendEntry(dst []byte, x uint64, i int, now uint64) []byte {
	e := &t.sets[x][i]
	dst = binary.LittleEndian.AppendUint64(dst, e.tag^e.tat)
	if t.logs == nil {
		return binary.AppendUvarint(dst, e.tat-now)
	}
	return t.logs.at(x, i).appendState(binary.AppendUvarint(dst, e.tat), now)
}
