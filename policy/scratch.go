package policy

import (
	"net/netip"

	"github.com/fastlimit/fastlimit"
)

// Scratch is the working memory of one call of [Engine.Decide] at a time. The
// zero value is ready. Reuse it in place, with any engine: only where it must grow does
// it allocate. It holds on to the bytes of the last request until the next.
// Not safe for concurrent use.
type Scratch struct {
	client  netip.Addr // of the request under way
	charges []fastlimit.Charge
	applied []Applied

	parts [][]byte // of all keys of the request, which borrow from it
	addrs []byte   // masked addresses within composite keys

	// The first values of the headers and cookies of Engine.fields: those of the
	// last lookup, and those for the decision under way.
	values, keyed [][]byte

	path, host []byte // canonical forms, where they differ from what came

	// few holds the charges of most requests within the scratch itself: after
	// a system call each page that a request touches costs some 60 ns.
	few [4]fastlimit.Charge
}

func (s *Scratch) reset() {
	if s.charges == nil {
		s.charges = s.few[:]
	}
	s.charges = s.charges[:0]
	s.parts, s.addrs = s.parts[:0], s.addrs[:0]
}

// canonicalPath returns the path of a request target as [AppendPath] does. It is
// a part of target where that is canonical already, else it is valid until the
// next call.
func (s *Scratch) canonicalPath(target []byte) (path []byte, ok bool) {
	if len(target) > 0 && target[0] == '/' {
		n := plainPrefix(target)
		if n == len(target) || target[n] == '?' {
			return target[:n], true
		}
	}
	s.path, ok = AppendPath(s.path[:0], target)
	return s.path, ok
}

// canonicalHost returns the host of a Host header or an authority as
// [AppendHost] does, under the terms of canonicalPath.
func (s *Scratch) canonicalHost(raw []byte) (host []byte, ok bool) {
	if n := plainHost(raw); n > 0 {
		return raw[:n], true
	}
	s.host, ok = AppendHost(s.host[:0], raw)
	return s.host, ok
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
	for _, c := range s.charges {
		s.applied = append(s.applied, Applied{RuleIndex: e.byRule[c.Rule], Rule: c.Rule, Key: c.Key})
	}
	return s.applied
}
