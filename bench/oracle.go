package bench

import (
	"fmt"
	"math"
	"net/netip"
	"time"
)

// Oracle judges the decisions of a limiter by one exact leaky bucket for each
// client, in whole numbers. It shares no code with the limiter. It is not safe
// for concurrent use. The zero value is not usable: call [NewOracle].
//
// A level counts units times per, so that each nanosecond leaks n, with n/per
// the rate in lowest terms.
type Oracle struct {
	n, per  int64
	limit   int64 // B·per
	buckets []account
	verdict Verdict
}

// account is the oracle's view of one client.
type account struct {
	at       time.Duration
	admitted int64 // level of what the limiter admitted
	alone    int64 // level of a bucket that decides for itself
	offered  int64 // level of all requests, denied ones too
}

// Verdict is the sum of what an oracle saw.
type Verdict struct {
	Requests, Denied int64
	// FalseDenials are those that the client's own admitted requests do not
	// explain: its exact bucket, charged with just these, had room.
	FalseDenials int64
	// ConformingDenied are those of clients who kept to their limit, counting
	// all that they sent: nobody can say that they earned it. A window that
	// denies a flooder until it ends makes false denials, but none of these.
	ConformingDenied int64
	// DeniedExactly is what one exact bucket for each client would deny.
	DeniedExactly int64
	// Excess is by how many units the admitted requests of the worst client
	// went above a bucket of the rule's rate and burst.
	Excess float64
}

// NewOracle returns an oracle of n clients who send no more than the given
// number of requests each.
func NewOracle(r Rule, clients int, requests int64) (*Oracle, error) {
	if r.Rate.N == 0 || r.Rate.Per <= 0 || r.Rate.N > math.MaxInt64 {
		return nil, fmt.Errorf("bench: rate %v: want a number of units above 0 in a time above 0", r.Rate)
	}
	n, per := int64(r.Rate.N), int64(r.Rate.Per)
	for a, b := n, per; ; a, b = b, a%b {
		if b == 0 {
			n, per = n/a, per/a
			break
		}
	}
	most := math.MaxInt64/per - requests - 1
	if r.Burst > math.MaxInt64 || most < int64(r.Burst) {
		return nil, fmt.Errorf("bench: the level of %d requests above a burst of %d at %v does not fit 64 bits: send fewer, or write the rate with a shorter period", requests, r.Burst, r.Rate)
	}
	return &Oracle{n: n, per: per, limit: int64(r.Burst) * per, buckets: make([]account, clients)}, nil
}

// Judge books a request and what the limiter made of it. The times of one
// client must not decrease.
func (o *Oracle) Judge(client uint32, at time.Duration, allowed bool) {
	a := &o.buckets[client]
	dt := int64(at - a.at)
	a.at, a.admitted, a.alone = at, o.leak(a.admitted, dt), o.leak(a.alone, dt)
	a.offered = o.leak(a.offered, dt) + o.per
	o.verdict.Requests++
	if allowed {
		a.admitted += o.per
		o.verdict.Excess = max(o.verdict.Excess, float64(a.admitted-o.limit)/float64(o.per))
	} else {
		o.verdict.Denied++
		if a.admitted+o.per <= o.limit {
			o.verdict.FalseDenials++
		}
		if a.offered <= o.limit {
			o.verdict.ConformingDenied++
		}
	}
	if a.alone+o.per <= o.limit {
		a.alone += o.per
	} else {
		o.verdict.DeniedExactly++
	}
}

// Observe lets l decide at the given time and judges it. Where l reads the clock
// itself, elapsed reads it too, and what l decided between two readings gets
// the benefit of the doubt: a denial is judged by the earlier one, when the
// bucket was fuller, an admission by the later one, when it was emptier. Else
// elapsed is nil.
func (o *Oracle) Observe(l Limiter, client uint32, addr netip.Addr, at time.Duration, elapsed func() time.Duration) {
	allowed := l.Allow(addr, at)
	if allowed && elapsed != nil {
		at = elapsed()
	}
	o.Judge(client, at, allowed)
}

// Verdict is the sum so far.
func (o *Oracle) Verdict() Verdict { return o.verdict }

// leak is the level after dt nanoseconds. It divides lest dt·n overflow.
func (o *Oracle) leak(level, dt int64) int64 {
	if dt > level/o.n {
		return 0
	}
	return level - dt*o.n
}
