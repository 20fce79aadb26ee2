package bucket

import (
	"fmt"
	"math/bits"
)

// thousandths is the number of parts of a unit that can be charged.
const thousandths = 1000

// InThousandths returns the same bucket for costs in thousandths of a unit: the n of
// [Shape.Cost] is in thousandths. Everything else stays in units, including T, B and what
// remains. Ticks are fine enough for a thousandth of T to be a whole number of them, so
// nothing is rounded here either. Stores scale by T, so they keep the units of a state that
// was written with or without thousandths.
//
// It fails if ticks would be too fine: with a field error of Burst, or one that wraps
// [ErrInexact] for a rate that is too high or has too many digits. It is for buckets.
func (s Shape) InThousandths() (Shape, error) {
	k := thousandths / gcd(s.unit, thousandths)
	if s.period != 0 || s.perMicro*k > maxPerMicro {
		return Shape{}, fmt.Errorf("fastlimit/bucket: in thousandths: %w", ErrInexact)
	}
	hi, limit := bits.Mul64(s.limit, k)
	if hi != 0 || limit > maxLimit {
		return invalid("Burst", fmt.Sprintf("burst %d is too large to be counted in thousandths", s.burst), fmt.Sprintf("want at most %d", maxLimit/(s.unit*k)))
	}
	s.perMicro, s.unit, s.limit = k*s.perMicro, k*s.unit, limit
	s.most = limit + s.perMicro - 1
	s.part, s.costs = s.unit/thousandths, s.burst*thousandths // at most limit
	return s, nil
}

// CostScale returns the cost of a unit: 1, or 1000 for a bucket in thousandths.
func (s *Shape) CostScale() uint64 {
	if s.part == s.unit {
		return 1
	}
	return thousandths
}

// MaxCost returns the highest cost that ever fits: B times the scale.
func (s *Shape) MaxCost() uint64 { return s.costs }

// Part returns a cost of 1 in ticks.
func (s *Shape) Part() uint64 { return s.part }

// RemainingCost returns the highest cost that fits now.
func (s *Shape) RemainingCost(tat, now uint64) uint64 {
	if s.part == s.unit {
		return s.Remaining(tat, now)
	}
	l := Level(tat, now)
	if l > s.most {
		return 0
	}
	return min((s.most-l)/s.part, s.costs)
}
