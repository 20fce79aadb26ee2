package suggest

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket"
)

// maxLevel is the highest level, in ticks; higher ones count as this. A client reaches it with 10^9 requests
// at once under 1/h; it leaves room to add a time.
const maxLevel = 1 << 62

// pace is a rate of the row, as in package bucket. All rates of the row have ticks of a microsecond
// (TestRatesHaveTicksOfAMicrosecond), so times are ticks and nothing is rounded.
type pace struct {
	rate fastlimit.Rate
	unit uint64 // ticks per request
}

func newPace(rate fastlimit.Rate) pace {
	s, err := bucket.NewShape(rate.N, rate.Per, 1)
	if err != nil || s.PerMicro() != 1 {
		panic(fmt.Sprintf("BUG: suggest: %v has %d ticks in a microsecond: %v", rate, s.PerMicro(), err))
	}
	return pace{rate, s.Unit()}
}

// cost is n requests in ticks, saturated.
func (p *pace) cost(n uint64) uint64 {
	hi, lo := bits.Mul64(n, p.unit)
	if hi != 0 {
		return maxLevel
	}
	return min(lo, maxLevel)
}

// need is the burst with which the client would never have been denied: the highest level
// of a bucket that admits everything, in requests. It fits this burst and no smaller one,
// since a bucket denies nothing as long as all of it fits.
func (p *pace) need(a *arrivals) uint64 {
	var tat, highest uint64
	r := a.runs()
	for at, n := r.next(); n > 0; at, n = r.next() {
		now := uint64(at)
		tat = min(bucket.Add(tat, now, p.cost(n)), now+maxLevel)
		highest = max(highest, bucket.Level(tat, now))
	}
	return (highest + p.unit - 1) / p.unit
}

// shed is how many of the client's requests a bucket with this burst would deny.
func (p *pace) shed(a *arrivals, burst uint64) (denied uint64) {
	var tat uint64
	limit := p.cost(burst)
	r := a.runs()
	for at, n := r.next(); n > 0; at, n = r.next() {
		now := uint64(at)
		admitted := min((limit-bucket.Level(tat, now))/p.unit, n)
		if admitted > 0 {
			tat = bucket.Add(tat, now, admitted*p.unit)
		}
		denied += n - admitted
	}
	return denied
}

// drain is the time in which a full bucket of this burst leaks out.
func (p *pace) drain(burst uint64) time.Duration {
	const longest = 1 << 50 // µs, 35 years: no Duration overflows
	return time.Duration(min(p.cost(burst), longest)) * time.Microsecond
}

// minute is how many requests a client over its limit gets within a minute at most.
func (p *pace) minute(burst uint64) uint64 {
	return burst + uint64(time.Minute/time.Microsecond)/p.unit
}

// atOnce returns the most requests with one time stamp: what the client needs at any rate.
func atOnce(a *arrivals) (most uint64) {
	r := a.runs()
	for _, n := r.next(); n > 0; _, n = r.next() {
		most = max(most, n)
	}
	return most
}

// rates returns the row: 1, 2, 5 per hour, minute and second, as people write them, from once an hour to once
// a microsecond, which is the same as no limit for any log.
func rates() (row []pace) {
	for _, u := range []struct {
		per  time.Duration
		most uint64
	}{{time.Hour, 20}, {time.Minute, 20}, {time.Second, 1_000_000}} {
		for n := uint64(1); n <= u.most; n *= 10 {
			for _, m := range []uint64{1, 2, 5} {
				if m*n <= u.most {
					row = append(row, newPace(fastlimit.Rate{N: m * n, Per: u.per}))
				}
			}
		}
	}
	return row
}

// round returns the next number that a person would write: 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten.
// It adds at most half.
func round(n uint64) uint64 {
	for scale := uint64(1); ; scale *= 10 {
		for _, halves := range []uint64{2, 3, 4, 6, 8, 10, 12, 16} {
			if v := halves * scale / 2; v >= n && halves*scale%2 == 0 {
				return v
			}
		}
		if scale > maxLevel/100 {
			return n
		}
	}
}
