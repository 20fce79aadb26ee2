// Package oracle judges the decisions of any limiter exactly: false denials, and
// what a client got beyond its limit.
package oracle

import (
	"fmt"
	"math"
	"time"

	"github.com/fastlimit/fastlimit/internal/testkit/judge"
)

// Oracle judges the decisions of a limiter by one exact leaky bucket for each
// client, in whole numbers. It shares no code with the limiter. It is not safe
// for concurrent use; clients are independent, so several oracles may share
// them out. The zero value is not usable: call [New].
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
	admitted int64 // the most that the level of what was admitted can be
	least    int64 // the least that it can be
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

// Add joins the verdict on other clients.
func (v *Verdict) Add(w Verdict) {
	v.Requests += w.Requests
	v.Denied += w.Denied
	v.FalseDenials += w.FalseDenials
	v.ConformingDenied += w.ConformingDenied
	v.DeniedExactly += w.DeniedExactly
	v.Excess = max(v.Excess, w.Excess)
}

// New returns an oracle of n clients who send no more than the given
// number of requests each.
func New(r Rule, clients int, requests int64) (*Oracle, error) {
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

// JudgeWithin books a request and what the limiter decided, at some moment from
// from to until, for example between a request and its answer. The limiter gets
// the benefit of the doubt: a denial counts as false only if it was false at every
// moment of the span, and the excess is the least that explains what was admitted.
// The spans of one client must not overlap, nor go back in time.
func (o *Oracle) JudgeWithin(client uint32, from, until time.Duration, allowed bool) {
	a := o.advance(client, from)
	o.verdict.Requests++
	if !allowed {
		o.deny(a)
	}
	if a.alone+o.per <= o.limit {
		a.alone += o.per
	} else {
		o.verdict.DeniedExactly++
	}
	early := a.least + o.per
	o.advance(client, until)
	a.offered += o.per
	if allowed {
		// Charged early it has leaked the most by now, charged late nothing.
		o.verdict.Excess = max(o.verdict.Excess, float64(a.least+o.per-o.limit)/float64(o.per))
		a.least = judge.Leak(early, int64(until-from), o.n)
		a.admitted += o.per
	}
}

// Lose books a request that got no answer: the limiter may have admitted it. The
// verdict does not count it.
func (o *Oracle) Lose(client uint32, until time.Duration) {
	a := o.advance(client, until)
	a.admitted += o.per
	a.offered += o.per
}

// deny judges a denial at the moment to which a has advanced.
func (o *Oracle) deny(a *account) {
	o.verdict.Denied++
	if a.admitted+o.per <= o.limit {
		o.verdict.FalseDenials++
	}
	if a.offered+o.per <= o.limit {
		o.verdict.ConformingDenied++
	}
}

// advance lets all levels of a client leak.
func (o *Oracle) advance(client uint32, to time.Duration) *account {
	a := &o.buckets[client]
	dt := max(0, int64(to-a.at))
	a.at += time.Duration(dt)
	a.admitted, a.least = judge.Leak(a.admitted, dt, o.n), judge.Leak(a.least, dt, o.n)
	a.alone, a.offered = judge.Leak(a.alone, dt, o.n), judge.Leak(a.offered, dt, o.n)
	return a
}

// Verdict is the sum so far.
func (o *Oracle) Verdict() Verdict { return o.verdict }
