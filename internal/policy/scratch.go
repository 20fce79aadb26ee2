package policy

import (
	"net/netip"
	"slices"

	"github.com/fastlimit/fastlimit"
)

// Scratch is the working memory of one call of [Engine.Decide] at a time. The
// zero value is ready. Reuse it, with any engine: only where it must grow does
// it allocate. It holds on to the bytes of the last request until the next.
// Not safe for concurrent use.
type Scratch struct {
	client  netip.Addr // of the request under way
	charges []fastlimit.Charge
	indices []int // of the rules of charges
	applied []Applied

	parts [][]byte // of all keys of the request, which borrow from it
	addrs []byte   // masked addresses within composite keys

	fields []field // by index into Engine.fields
}

// field is a header or cookie as it was looked up, once for all rules.
type field struct {
	value []byte
	known bool
}

func (s *Scratch) reset(fields int) {
	s.charges, s.indices = s.charges[:0], s.indices[:0]
	s.parts, s.addrs = s.parts[:0], s.addrs[:0]
	s.fields = slices.Grow(s.fields[:0], fields)[:fields]
	clear(s.fields)
}

// verdict is a decision and the charge that it is by, as the limiter gives
// them.
func (s *Scratch) verdict(d fastlimit.Decision, by int) Verdict {
	v := Verdict{Decision: d}
	if by >= 0 {
		v.Rule = s.charges[by].Rule
	}
	return v
}

// Applied is one rule that applied to a request, and the key it was charged
// to.
type Applied struct {
	RuleIndex int
	Rule      *fastlimit.Rule
	Key       fastlimit.Key // borrows from the request and the scratch
}

// Applied returns the rules that applied in the last decision with s, in the
// order of the configuration, those in shadow mode included. The slice and its
// keys are valid until the next decision with s. It does not allocate.
func (e *Engine) Applied(s *Scratch) []Applied {
	s.applied = s.applied[:0]
	for i, c := range s.charges {
		s.applied = append(s.applied, Applied{RuleIndex: s.indices[i], Rule: c.Rule, Key: c.Key})
	}
	return s.applied
}
