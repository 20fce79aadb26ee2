package ban

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/fastlimit/fastlimit/internal/frames"
	"github.com/fastlimit/fastlimit/sketch"
)

const (
	// statePiece is the size at which a piece of the output ends.
	statePiece = 64 << 10

	// maxStored keeps sums of times within 64 bits.
	maxStored = math.MaxInt64 / 2
)

// AppendState appends the records of sets from x on that still matter at now, about 64 KiB
// of them, and returns the set to continue from, which is 0 after the last one. Each set is
// read under its lock.
func (t *Table) AppendState(dst []byte, p *Policy, x int, now time.Duration) (state []byte, next int) {
	for ; x < len(t.marks); x++ {
		if t.marks[x].Load() == 0 {
			continue
		}
		if len(dst) >= statePiece {
			return dst, x
		}
		dst = t.appendSet(dst, p, x, now)
	}
	return dst, 0
}

func (t *Table) appendSet(dst []byte, p *Policy, x int, now time.Duration) []byte {
	mu := &t.locks[x&(len(t.locks)-1)]
	mu.Lock()
	defer mu.Unlock()
	for m := t.usedLocked(x); m != 0; m &= m - 1 {
		i := place(uint64(x), m)
		if t.worthLocked(p, i, now) == 0 {
			continue
		}
		r, b := &t.front[i], &t.backs[i]
		dst = binary.AppendUvarint(dst, uint64(i))
		dst = binary.LittleEndian.AppendUint64(dst, r.pos.Load())
		dst = binary.LittleEndian.AppendUint64(dst, r.id.Load())
		for _, v := range [...]uint64{r.slot.Load(), r.end.Load(), r.own, r.length, uint64(r.times), r.word.Load() & maxCount} {
			dst = binary.AppendUvarint(dst, v)
		}
		for _, n := range b.past {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		dst = append(append(dst, b.length), b.name[:b.length]...)
	}
	return dst
}

// RestoreState reads a piece of AppendState of a table with the same size and Within, whose
// time continues. The table must not be in use yet.
func (t *Table) RestoreState(piece []byte) error {
	u := frames.Unpack(piece)
	for u.More() {
		t.restore(u)
	}
	return u.Err("bans")
}

func (t *Table) restore(u *frames.Unpacker) {
	i, d := u.Uvarint(), sketch.Digest{}
	d.Pos, d.ID = u.Uint64(), u.Uint64()
	slot, end, own, length, times, count := u.Uvarint(), u.Uvarint(), u.Uvarint(), u.Uvarint(), u.Uvarint(), u.Uvarint()
	var past [slots - 1]uint16
	before := uint64(0)
	for k := range past {
		n := u.Uvarint()
		before += min(n, maxCount+1)
		past[k] = uint16(n) // checked below
	}
	name := u.Bytes(uint64(u.Byte()))
	x, y := t.sets(d)
	free := i < uint64(len(t.front)) && (i/ways == x || i/ways == y) && t.marks[i/ways].Load()>>(i%ways*8)&0xff == 0
	if !free || slot > maxStored || end > maxStored || length > maxStored || times > math.MaxUint32 || count > maxCount || before > count || own > end || len(name) > NameBytes {
		u.Fail()
		return
	}
	t.enterLocked(int(i), d, slot)
	r := &t.front[i]
	w := r.open()
	r.own, r.length, r.times = own, length, uint32(times)
	t.backs[i].past = past
	t.endLocked(int(i), time.Duration(end), name)
	r.close(w, count)
}
