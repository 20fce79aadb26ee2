package policy

import (
	"net/netip"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// Scratch is the working memory of [Engine.Assemble] and [Engine.Decide], for one request
// at a time. The zero value is ready to use. It may be reused, with any engine, but not
// copied. It allocates only to grow. It keeps the bytes of a request, and the rules that
// applied to it, alive until the next. Not safe for concurrent use.
type Scratch struct {
	client  netip.Addr // of the current request
	charges []fastlimit.Charge
	apart   []fastlimit.Charge // see setApart; empty between decisions

	parts [][]byte // key parts of all rules; the keys borrow them
	addrs []byte   // masked addresses and folded paths that composite keys contain

	banned time.Duration // how long the client stays banned, if it is

	charged, parted int // lengths of charges and parts for the previous request

	// Values of the headers and cookies in Engine.fields: those that were looked up
	// last, and those that the current decision uses.
	values, keyed [][]byte

	unlimited []*fastlimit.Rule // whose overrides give the client no limit
	badCosts  []*fastlimit.Rule // for which the request has a bad cost
	badRates  []*fastlimit.Rule // likewise for a bad rate
	refused   *fastlimit.Rule   // which refuses the request for that; nil: none

	path, host []byte   // canonical forms that differ from what arrived
	others     [][]byte // in path: how other servers read it

	// few holds the charges of most requests in the scratch itself, so that a request
	// touches one region of memory less: kernel work between two requests evicts our cache
	// lines.
	few [4]fastlimit.Charge
}

func (s *Scratch) reset() {
	if s.charges == nil {
		s.charges = s.few[:]
	}
	s.charged, s.parted = len(s.charges), len(s.parts)
	s.charges = s.charges[:0]
	s.parts, s.addrs = s.parts[:0], s.addrs[:0]
	s.unlimited, s.badCosts, s.badRates, s.refused = s.unlimited[:0], s.badCosts[:0], s.badRates[:0], nil
}

// noted is note, inlined for requests with nothing to count.
func (s *Scratch) noted() (ok bool) {
	return s.plain() || s.note()
}

// plain reports whether there is nothing to count but the charges.
func (s *Scratch) plain() bool { return len(s.unlimited)+len(s.badCosts)+len(s.badRates) == 0 }

// note counts bad costs and rates and, unless the request is refused for one, an unlimited
// decision of each rule whose override gives the client no limit.
func (s *Scratch) note() (ok bool) {
	for _, r := range s.badCosts {
		(*engine.Rule)(r).BadCost()
	}
	for _, r := range s.badRates {
		(*engine.Rule)(r).BadRate()
	}
	if s.refused != nil {
		return false
	}
	for _, r := range s.unlimited {
		(*engine.Rule)(r).Unlimited()
	}
	return true
}

// refusal returns the verdict on a request with a bad cost.
func (s *Scratch) refusal() Verdict {
	v := Verdict{Rule: s.refused, Refused: RefusedCost}
	v.Decision.Remaining = fastlimit.RemainingUnknown
	clear(s.charges) // no client was charged
	s.charges = s.charges[:0]
	return v
}

// trim drops what only the previous request needed. A pooled scratch would otherwise keep a
// limiter alive that a reload has replaced.
func (s *Scratch) trim() {
	if n := len(s.charges); n < s.charged {
		clear(s.charges[n:s.charged])
	}
	if n := len(s.parts); n < s.parted {
		clear(s.parts[n:s.parted])
	}
	if cap(s.charges) > len(s.few) && s.few[0].Rule != nil { // grown out of it
		clear(s.few[:])
	}
}

// canonicalHost returns the host of a Host header or an authority as [AppendHost] does. It
// is valid for as long as the result of readPath.
func (s *Scratch) canonicalHost(raw []byte) (host []byte, ok bool) {
	if n := plainHost(raw); n > 0 {
		return raw[:n], true
	}
	s.host, ok = AppendHost(s.host[:0], raw)
	return s.host, ok
}

// verdict converts what [fastlimit.Limiter.TakeAll] returns: by is an index into
// s.charges, negative if no enforced rule applied.
func (s *Scratch) verdict(d fastlimit.Decision, by int) Verdict {
	v := Verdict{Decision: d}
	if by >= 0 {
		v.Rule = s.charges[by].Rule
	}
	return v
}

// Applied returns the charges of the last decision with s: the rules that applied, in the
// order of the configuration, including those in shadow mode, and the keys that were
// charged. Shadow rules that take their costs from responses come last. Those of them that
// would have denied the request have a Cost of 0, and none is there after a denial. If a
// rule has an override for the client, the charge is of the tier ([fastlimit.Rule.Tier]);
// if the client has no limit, there is none. The slice and its keys are valid until the
// next decision with s.
func (s *Scratch) Applied() []fastlimit.Charge { return s.charges }
