package replay

import (
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/policy"
)

// account is the oracle's record of one client under one rule.
type account struct {
	at       int64  // microsecond of the tallies; in Unix time for windows
	admitted tally  // what the limiter admitted
	charged  *tally // admitted and denied, if denials count; else nil
	alone    tally  // for a limit that makes its own decisions

	limit *exact   // the client's, or the rule's
	bans  *banBook // if the rule bans, once the client was denied

	requests    int
	denied      int            // by this rule
	falseDenied int            // denied by this rule although the request would have fitted
	exactDenied int            // denied by the limit that makes its own decisions
	key         policy.KeyText // empty until it is denied
}

// advance advances all tallies to a time.
func (a *account) advance(e *exact, at int64) {
	if e.countDenied && a.charged == nil {
		a.charged = new(tally)
	}
	e.advance(&a.admitted, a.at, at)
	e.advance(&a.alone, a.at, at)
	if a.charged != nil {
		e.advance(a.charged, a.at, at)
	}
	a.at = at
}

// judgeBan records what a decision means for bans, before it is judged. The denial that begins a ban is also
// one by the bucket, and judged as such; later ones are right if the ban is.
func (a *account) judgeBan(p *fastlimit.BanPolicy, cost uint64, v verdict, d fastlimit.Decision, now time.Duration) verdict {
	switch {
	case v == admitted || v == deniedElsewhere && a.fits(a.limit, cost):
		return v
	case a.bans == nil:
		a.bans = new(banBook)
	}
	if v == deniedElsewhere || d.Stage != fastlimit.StageBan {
		a.bans.denied(p, now)
		return v
	}
	begins := now >= a.bans.end
	if !a.bans.banned(p, now, d.RetryAfter) {
		a.falseDenied++
		return deniedByBan
	}
	if begins {
		return v
	}
	return deniedByBan
}

// verdict is the limiter's decision on a request, as seen by one rule.
type verdict uint8

const (
	admitted verdict = iota
	deniedHere
	deniedElsewhere // by another rule, so nothing is charged here
	deniedByBan     // by this rule, whatever its bucket, which is not charged
)

// judge records a request with the limiter's verdict, and returns the excess afterwards.
func (a *account) judge(e *exact, cost uint64, v verdict) (excess float64) {
	a.requests++
	switch v {
	case deniedElsewhere:
		return 0
	case admitted: // even beyond the limit: P2 bounds by how much
		e.add(&a.admitted, a.at, cost)
		if a.charged != nil {
			e.add(a.charged, a.at, cost)
		}
		excess = e.excess(&a.admitted, a.at)
	case deniedHere:
		a.denied++
		a.judgeDenial(e, cost)
	case deniedByBan:
		a.denied++
	}
	if e.fits(&a.alone, a.at, cost) {
		e.add(&a.alone, a.at, cost)
		return excess
	}
	a.exactDenied++
	if e.countDenied {
		e.addDenied(&a.alone, cost)
	}
	return excess
}

// judgeDenial checks a denial against P1: it is right only if the request does not fit with what was
// admitted, and with what was denied where denials count.
func (a *account) judgeDenial(e *exact, cost uint64) {
	if a.fits(e, cost) {
		a.falseDenied++
	}
	if a.charged != nil {
		e.addDenied(a.charged, cost)
	}
}

// fits reports whether a request fits with what was admitted, and with what was denied where denials count.
func (a *account) fits(e *exact, cost uint64) bool {
	if a.charged != nil {
		return e.fits(a.charged, a.at, cost)
	}
	return e.fits(&a.admitted, a.at, cost)
}

// entries is how many times the account's logs can hold.
func (a *account) entries() int { return cap(a.admitted.taken) + cap(a.alone.taken) }

// expire drops the times of logs that no longer count, and their memory.
func (a *account) expire(e *exact, at int64) {
	a.advance(e, at)
	a.admitted.taken, a.alone.taken = append([]int64(nil), a.admitted.taken...), append([]int64(nil), a.alone.taken...)
}
