package bucket

import (
	"math/bits"
	"time"
)

// finePerMicro is the least number of ticks per µs of a shape from which [Shape.At] makes
// others. Their T is rounded down by at most a tick, 10^-9 s, so a rate of 1000/s is
// accurate to one part in a million, and slower ones are better.
const finePerMicro = 1008

// maxFine bounds the level of a bucket of [Shape.Fine] and [Shape.At] in ticks: more than
// MaxFine. It leaves room for slack below MaxPortable.
const maxFine = MaxPortable / 2

// MaxFine is the longest time in which such a bucket may drain.
const MaxFine = 12 * 24 * time.Hour

var _ [maxFine/(2*finePerMicro) - uint64(MaxFine/time.Microsecond)]struct{}

// Fine returns the same bucket in smaller ticks, so that [Shape.At] can make others from
// it. ok is false for a window or log, for [Shape.InThousandths], for a bucket that takes
// longer than MaxFine to leak, and for a rate with too many digits, which has 2016 ticks or
// more per µs already.
func (s Shape) Fine() (fine Shape, ok bool) {
	k := (finePerMicro + s.perMicro - 1) / max(1, s.perMicro)
	hi, limit := bits.Mul64(s.limit, k)
	if s.period != 0 || s.part != s.unit || hi != 0 || s.perMicro >= 2*finePerMicro || limit/(k*s.perMicro) > uint64(MaxFine/time.Microsecond) {
		return s, false
	}
	s.perMicro, s.unit, s.limit = k*s.perMicro, k*s.unit, limit
	s.most, s.part = limit+s.perMicro-1, s.unit
	return s, true
}

// At returns the bucket of n units per period, from 1/d to 10^9/s, and the given burst,
// counted in the ticks of s, which is from [Shape.Fine]. A state holds no limit, only the
// time until which a bucket is busy, so it means the same to both, and to a store: a
// request of n units keeps the bucket busy for n·T of the limit at which it was charged,
// and fits if the total does not exceed B·T of that limit. So
//
//	Σ n·T of all that is admitted in a time t <= t + max B·T
//
// whatever the limits at which a client is charged in turn: alternating between two never
// gives more than the better of them.
//
// T is rounded down to whole ticks, so a client within the rate is never denied for it. The
// burst is lowered to what leaks in [MaxFine].
func (s *Shape) At(n uint64, per time.Duration, burst uint64) Shape {
	at := *s
	at.stored = s.StoredUnit()
	// The longest period, 366 days, times the ticks in a µs is below 2^56.
	at.unit = max(1, uint64(per/time.Microsecond)*s.perMicro/max(1, n))
	at.burst = max(1, min(burst, uint64(MaxFine/time.Microsecond)*s.perMicro/at.unit))
	at.part, at.costs = at.unit, at.burst
	at.limit = at.burst * at.unit
	at.most = at.limit + at.perMicro - 1
	return at
}

// StoredUnit returns the unit by which a store scales states that were written with another
// one, to keep their units if a limit has changed. All shapes that [Shape.At] makes from
// one shape have the same, as time is what counts for them.
func (s *Shape) StoredUnit() uint64 {
	if s.stored != 0 {
		return s.stored
	}
	return s.unit
}

// At returns a table over the same buckets for a limit of [Shape.At].
func (t *Table) At(shape Shape) Table {
	other := *t
	other.shape = shape
	return other
}
