package bucket

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// # What is written of a table
//
// Buckets that have not drained, in pieces of which each can be read by itself:
//
//	piece = now bucket…                          now in ticks: what others are relative to
//	bucket = place (8 bytes of) ID TAT-now       of logs: word n, first - now, later - the one before…
//	place = sets since the last bucket <<3 | way<<1 | guest
//
// Each bucket keeps its place, so that a table of the same size holds all of them again.

const (
	// statePiece is where a piece ends; one log may make it longer.
	statePiece = 64 << 10

	// maxStored keeps sums of a level that was read and a clock reading within 64 bits.
	maxStored = 1 << 62
)

// AppendState appends the buckets of sets from x on that have not drained at now, about 64 KiB of
// them, and returns the set to go on from, which is 0 after the last one. Each set is read
// under its lock; one that moves meanwhile may be missed, or be there twice.
func (t *Table) AppendState(dst []byte, x int, now uint64) (state []byte, next int) {
	dst = binary.AppendUvarint(dst, now)
	last := uint64(0)
	for i := x / marksWord; i < len(t.marks); i++ {
		w := atomic.LoadUint64(&t.marks[i])
		for w = (w | w>>1) & markOfEach; w != 0; w &= w - 1 {
			at := uint64(i)*marksWord + uint64(bits.TrailingZeros64(w))/markBits
			if at < uint64(x) { //nolint:gosec // a place
				continue
			}
			if len(dst) >= statePiece {
				return dst, int(at) //nolint:gosec // a place
			}
			dst, last = t.appendSet(dst, at, last, now)
		}
	}
	return dst, 0
}

func (t *Table) appendSet(dst []byte, x, last, now uint64) ([]byte, uint64) {
	mu := t.lock(x)
	mu.Lock()
	defer mu.Unlock()
	for i := range t.sets[x] {
		e := &t.sets[x][i]
		if !t.liveAt(x, i, e.tat, now) {
			continue
		}
		place := (x-last)<<3 | uint64(i)<<1 //nolint:gosec // below 4
		if t.guestLocked(x, i) {
			place |= 1
		}
		last = x
		dst = binary.AppendUvarint(dst, place)
		dst = binary.LittleEndian.AppendUint64(dst, e.tag^e.tat)
		if t.logs == nil {
			dst = binary.AppendUvarint(dst, e.tat-now)
		} else {
			dst = t.logs.at(x, i).appendState(binary.AppendUvarint(dst, e.tat), now)
		}
	}
	return dst, last
}

// RestoreState reads a piece of AppendState of a table of the same shape and size, whose
// time goes on. Nobody may use the table yet. A bucket that is there twice is once again,
// as full as the fuller of both.
func (t *Table) RestoreState(piece []byte) error {
	u := frames.Unpack(piece)
	now, x := u.Uvarint(), uint64(0)
	for u.More() {
		place, id := u.Uvarint(), u.Uint64()
		x += place >> 3
		if place>>3 >= uint64(len(t.sets)) || x >= uint64(len(t.sets)) {
			u.Fail()
			break
		}
		t.restore(u, x, int(place>>1&3), id, now, place&1 != 0) //nolint:gosec // below 4
	}
	return u.Err("buckets")
}

func (t *Table) restore(u *frames.Unpacker, x uint64, i int, id, now uint64, guest bool) {
	tat := u.Uvarint()
	if t.logs == nil {
		if tat > maxStored && !t.shape.Windowed() || tat > math.MaxUint64-now {
			u.Fail()
			return
		}
		tat += now
	}
	home, other := x, t.other(x, id)
	if guest {
		home, other = other, x
	}
	at, j := home, t.findLocked(home, id)
	if j < 0 {
		at, j = other, t.findLocked(other, id)
	}
	switch {
	case tat == 0 || tat > maxStored<<1 && t.logs != nil:
		u.Fail()
	case j >= 0 && t.logs == nil:
		e := &t.sets[at][j]
		e.store(id, t.shape.Join(e.tat, tat))
	case j >= 0:
		skipLog(u)
	case t.sets[x][i].tat != 0:
		u.Fail()
	default:
		if t.logs != nil {
			t.logs.at(x, i).restore(u, now)
		}
		t.enterLocked(home, x, i, id, tat)
	}
}

// appendState appends the times of the log that count at now, the oldest first.
func (l log) appendState(dst []byte, now uint64) []byte {
	n := l.live(now)
	dst = binary.AppendUvarint(dst, uint64(n)) //nolint:gosec // positive
	before := now
	for k := n - 1; k >= 0; k-- {
		t := l.latest(k)
		dst = binary.AppendVarint(dst, int64(t-before)) //nolint:gosec // a difference
		before = t
	}
	return dst
}

// restore reads times into the log.
func (l log) restore(u *frames.Unpacker, now uint64) {
	l.clear()
	n := u.Uvarint()
	if n > uint64(l.size()) { //nolint:gosec // positive
		u.Fail()
	}
	for ; n > 0 && u.More(); n-- {
		if now += uint64(u.Varint()); now > maxStored { //nolint:gosec // a difference
			u.Fail()
			return
		}
		l.push(now, 1)
	}
}

func skipLog(u *frames.Unpacker) {
	for n := u.Uvarint(); n > 0 && u.More(); n-- {
		u.Varint()
	}
}
