package bucket

import (
	"encoding/binary"
	"math"

	"github.com/fastlimit/fastlimit/internal/frames"
)

// # The saved form of a table
//
// It has the buckets that have not drained, in pieces that can be read independently:
//
//	piece = now bucket…                          now in ticks: what others are relative to
//	bucket = place (8 bytes of) ID TAT-now       of logs: word n, first - now, later - the one before…
//	place = sets since the last bucket <<3 | way<<1 | guest
//
// Each bucket keeps its place, so that a table of the same size can hold all of them. One
// that moved meanwhile may find its place taken.

const (
	// statePiece is where a piece ends; one log may make it longer.
	statePiece = 64 << 10

	// maxStored keeps sums of a level that was read and a clock reading within 64 bits.
	maxStored = 1 << 62
)

// RestoreState reads a piece of a [Saving] of a table of the same shape and size, whose
// time continues. The table must not be in use yet. A bucket that occurs twice is restored
// once, as full as the fuller of both.
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
		t.restore(u, x, int(place>>1&3), id, now, place&1 != 0) // below 4
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
	default:
		if t.sets[x][i].tat != 0 {
			x, i = t.roomInState(home, other, now)
		}
		if t.logs != nil {
			t.logs.at(x, i).restore(u, now)
		}
		t.enterLocked(home, x, i, id, tat)
	}
}

// roomInState returns a place for a bucket whose own is taken: a free one, or that of the
// lowest, which is evicted.
func (t *Table) roomInState(home, other, now uint64) (at uint64, i int) {
	for _, x := range [2]uint64{home, other} {
		for j := range t.sets[x] {
			if t.sets[x][j].tat == 0 {
				return x, j
			}
		}
	}
	at, i = t.lowestLocked(&held{x: home, y: other}, now)
	t.evictLocked(at, i, now)
	return at, i
}

// appendState appends the times of the log that count at now, the oldest first.
func (l log) appendState(dst []byte, now uint64) []byte {
	n := l.live(now)
	dst = binary.AppendUvarint(dst, uint64(n))
	before := now
	for k := n - 1; k >= 0; k-- {
		t := l.latest(k)
		dst = binary.AppendVarint(dst, int64(t-before))
		before = t
	}
	return dst
}

// restore reads times into the log.
func (l log) restore(u *frames.Unpacker, now uint64) {
	l.clear()
	n := u.Uvarint()
	if n > uint64(l.size()) {
		u.Fail()
	}
	for ; n > 0 && u.More(); n-- {
		if now += uint64(u.Varint()); now > maxStored {
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
