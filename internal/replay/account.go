package replay

// account is the oracle's view of one client under one rule.
type account struct {
	at       int64  // microsecond of the tallies; of windows in Unix time
	admitted tally  // what the limiter admitted
	charged  *tally // that and what it denied, if denials count; else nil
	alone    tally  // of a limit that makes its own decisions

	limit *exact // its own, or the rule's

	requests    int
	denied      int // by this rule
	falseDenied int // denied by this rule although the request would have fitted
	exactDenied int // denied by the limit that makes its own decisions
	key         []string
}

// advance takes all tallies to a time.
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

// verdict is the limiter's decision on a request from the view of one rule.
type verdict uint8

const (
	admitted verdict = iota
	deniedHere
	deniedElsewhere // by another rule, so that nothing is charged here
)

// judge records a request with the limiter's verdict, and returns the excess after
// it.
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

// judgeDenial holds a denial against P1, which allows it only if the request does not
// fit beside what was admitted, and denied where denials count.
func (a *account) judgeDenial(e *exact, cost uint64) {
	counted := &a.admitted
	if a.charged != nil {
		counted = a.charged
	}
	if e.fits(counted, a.at, cost) {
		a.falseDenied++
	}
	if a.charged != nil {
		e.addDenied(a.charged, cost)
	}
}

// entries is how many times the account's logs hold.
func (a *account) entries() int { return cap(a.admitted.taken) + cap(a.alone.taken) }

// expire drops the times of logs that no longer count, and their memory.
func (a *account) expire(e *exact, at int64) {
	a.advance(e, at)
	a.admitted.taken, a.alone.taken = append([]int64(nil), a.admitted.taken...), append([]int64(nil), a.alone.taken...)
}
