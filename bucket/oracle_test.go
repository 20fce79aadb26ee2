package bucket_test

import (
	"math/big"
	"time"
)

// ideal is the leaky bucket itself, in rational arithmetic on a clock of
// whole nanoseconds: level in units, leaking rate units per ns.
type ideal struct {
	rate  *big.Rat
	burst *big.Rat
	level *big.Rat
	last  time.Duration
}

func newIdeal(n uint64, per time.Duration, burst uint64) *ideal {
	return &ideal{
		rate:  new(big.Rat).Quo(ratU(n), ratU(uint64(per))),
		burst: ratU(burst),
		level: new(big.Rat),
	}
}

// at leaks until now, which does not go back.
func (b *ideal) at(now time.Duration) *big.Rat {
	leak := new(big.Rat).Mul(b.rate, ratU(uint64(now-b.last)))
	b.last = now
	if b.level.Sub(b.level, leak).Sign() < 0 {
		b.level.SetInt64(0)
	}
	return b.level
}

func (b *ideal) fits(now time.Duration, n uint64) bool {
	return new(big.Rat).Add(b.at(now), ratU(n)).Cmp(b.burst) <= 0
}

func (b *ideal) add(now time.Duration, n uint64) { b.at(now).Add(b.level, ratU(n)) }

// over is how far the level is above the burst, in time: at most 0 for a
// stream that conforms.
func (b *ideal) over() *big.Rat {
	d := new(big.Rat).Sub(b.level, b.burst)
	return d.Quo(d, b.rate)
}

func ratU(v uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(v)) }
