package exact

import (
	"time"

	"github.com/fastlimit/fastlimit/limit"
	"github.com/fastlimit/fastlimit/sketch"
)

// Take charges cost to d if it fits.
func (b *Buckets) Take(d sketch.Digest, cost uint64, now time.Duration) limit.Decision {
	for {
		tat, ok := b.Table.Take(d, b.Ticks(now), cost)
		if ok {
			return b.Decision(d, limit.StageExact, true, tat, now, cost)
		}
		// Another request may have charged d after reading the clock later than this one. The loop ends,
		// because each round means that another request was admitted.
		late := b.Clock.Late(now)
		if late == now || !b.Fits(d, tat, b.Ticks(late), cost) {
			if b.countDenied { // unless it fits by now
				tat, ok = b.Table.TakeCounted(d, b.Ticks(late), cost)
			}
			return b.Decision(d, limit.StageExact, ok, tat, late, cost)
		}
		now = late
	}
}

// TakeUpTo charges as many of n units to d as fit, and returns how many.
func (b *Buckets) TakeUpTo(d sketch.Digest, n uint64, now time.Duration) (limit.Decision, uint64) {
	tat, taken := b.fill(d, n, now)
	// As in Take, what another request has overtaken is judged again.
	if late := b.Clock.Late(now); taken < n && late > now {
		var more uint64
		now = late
		tat, more = b.fill(d, n-taken, now)
		taken += more
	}
	if taken < n && b.countDenied { // unless it fits by now
		var ok bool
		if tat, ok = b.Table.TakeCounted(d, b.Ticks(now), b.Shape.Cost(n-taken)); ok {
			taken = n
		}
	}
	return b.Decision(d, limit.StageExact, taken > 0, tat, now, b.Shape.Part()), taken
}

// fill charges as many of n units as fit at now, and returns the TAT afterwards. It takes what fitted when it
// looked. If that does not fit any more it tries fewer units, by the TAT that refused it: another request was
// admitted in between, or had the bucket swept at a later time, so that no lookup would find it
// (TestTakeUpToOvertaken).
func (b *Buckets) fill(d sketch.Digest, n uint64, now time.Duration) (tat, taken uint64) {
	ticks := b.Ticks(now)
	for tat = b.Table.Lookup(d); ; n = taken - 1 {
		if taken = min(n, b.Remaining(d, tat, ticks)); taken == 0 {
			return tat, 0
		}
		var ok bool
		if tat, ok = b.Table.Take(d, ticks, b.Shape.Cost(taken)); ok {
			return tat, taken
		}
	}
}

// Remaining is the highest cost that fits the bucket of d, whose TAT is tat.
func (b *Buckets) Remaining(d sketch.Digest, tat, ticks uint64) uint64 {
	if b.Logged {
		free, _, _ := b.Table.Log(d, ticks, 1)
		return free
	}
	return b.Shape.RemainingCost(tat, ticks)
}
