package bucket

import (
	"math/bits"
	"sync/atomic"
)

// Sweep clears the marks of sets whose buckets have all drained at now, over part of the
// sets: the part'th of parts. Without it lookups still work, but get slower the more sets
// were ever used.
func (t *Table) Sweep(now uint64, part, parts int) {
	lo, hi := len(t.marks)*part/parts, len(t.marks)*(part+1)/parts
	for i := lo; i < hi; i++ {
		w := atomic.LoadUint64(&t.marks[i])
		for w = (w | w>>1) & markOfEach; w != 0; w &= w - 1 {
			t.sweepSet(uint64(i)*marksWord+uint64(bits.TrailingZeros64(w))/markBits, now)
		}
	}
}

// markOfEach has the lower bit of each set of a word of marks.
const markOfEach = 0x5555555555555555

// sweepSet frees the drained guests of set x, which then no longer count at their homes,
// and clears marks that no longer apply. A home that is swept before the set where its last
// bucket was keeps its marks until the next time.
func (t *Table) sweepSet(x, now uint64) {
	mu := t.lock(x)
	mu.Lock()
	defer mu.Unlock()
	clear := uint64(inUse | spilled)
	for i := range t.sets[x] {
		switch {
		case t.liveAt(x, i, t.sets[x][i].tat, now):
			clear &^= inUse
		case t.guestLocked(x, i):
			t.freeLocked(x, i)
		}
	}
	if t.awayOf(x) > 0 {
		clear &^= spilled
	}
	if clear != 0 {
		atomic.AndUint64(&t.marks[x/marksWord], ^(clear << (x * markBits & 63)))
	}
}
