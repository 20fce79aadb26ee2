package policy

import (
	"bytes"
	"math/bits"
	"net/textproto"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/engine"
)

// CostSource says where the cost of a request comes from, if not from the rule.
type CostSource struct {
	// Header is the name of a request header with the cost, a number of units up to the
	// burst of the client's limit, whole unless Limit.Thousandths or Fractions is set. It
	// counts only if a trusted proxy has sent it, which must overwrite what its own clients
	// send. A request without it costs what the rule says. "" means none.
	Header string

	// ResponseHeader is the name of a response header with the cost, 0 or more. A request
	// is admitted at Limit.Cost. The caller that sees the response then charges the rest or
	// gives some back; see [Engine.Owe]. Without that it costs Limit.Cost. "" means none;
	// it excludes Header.
	ResponseHeader string

	// Fractions lets the header have up to three decimals, such as 0.5. It sets
	// [fastlimit.RuleConfig].Thousandths of the limit, where Limit.Cost is in whole units.
	Fractions bool
}

// BadCost says what to do with a request for which a trusted proxy names a cost that cannot
// be charged: not a number, 0, negative, with a fraction (or one too fine), above the
// burst, or several costs. An unlimited client has no bad costs, as it is not charged. A
// bad cost in a response leaves the request at the rule's cost, whatever the choice: it has
// been served.
type BadCost uint8

// The choices of RuleSpec.OnBadCost. A shadow rule ignores a request that it would reject.
const (
	BadCostReject BadCost = iota // refuse the request; no rule charges it
	BadCostDeny                  // let the rule deny it, like a request that costs more than the burst
	BadCostCharge                // charge the rule's cost
)

// String returns the name of the choice in a configuration file.
func (b BadCost) String() string { return nameOf(b, "reject", "deny", "charge") }

// CheckCostFrom checks CostFrom and OnBadCost. The error is a [fastlimit.FieldError].
func (r *RuleSpec) CheckCostFrom() error {
	h, of := r.CostFrom.Header, r.CostFrom.ResponseHeader
	none := h == "" && of == ""
	switch {
	case h != "" && of != "":
		return r.invalid("CostFrom", "remove one of the two", "has both Header and ResponseHeader")
	case h != "" && !isToken(h):
		return r.invalid("CostFrom.Header", "want a header such as X-Cost", "%q is not the name of a header", h)
	case of != "" && !isToken(of):
		return r.invalid("CostFrom.ResponseHeader", "want a header such as X-Cost", "%q is not the name of a header", of)
	case ofMessages[textproto.CanonicalMIMEHeaderKey(of)]:
		return r.invalid("CostFrom.ResponseHeader", "want a header of its own such as X-Cost", "%s is of the answer itself, and clients do not get the header with the cost", of)
	case r.OnBadCost > BadCostCharge:
		return r.invalid("OnBadCost", "want one of the constants", "%d: there is no such choice", r.OnBadCost)
	case none && r.CostFrom.Fractions:
		return r.invalid("CostFrom.Fractions", "remove it, or name a header", "has no meaning without a header that costs come from")
	case none && r.OnBadCost != BadCostReject:
		return r.invalid("OnBadCost", "remove it, or add cost_from", "has no meaning without a header that costs come from")
	}
	return nil
}

// ofMessages are headers that responses need for themselves. A header that has a cost is
// not passed on, so it must not be one of these.
var ofMessages = map[string]bool{
	"Connection": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Date": true, "Keep-Alive": true, "Location": true,
	"Set-Cookie": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Via": true,
}

// invalid is the function invalid for a field of this rule.
func (r *RuleSpec) invalid(name, fix, format string, args ...any) *fastlimit.FieldError {
	e := invalid(name, fix, format, args...)
	e.Rule = r.Limit.Name
	return e
}

// namedCost returns what a request of a trusted proxy costs by the rule, for a client with
// that limit: the rule's cost if no header names another. For a bad cost that is to be
// rejected it sets s.refused.
func (c *rule) namedCost(f Fields, limit *fastlimit.Rule, s *Scratch) uint64 {
	values := f.Header(c.costFrom)
	if len(values) == 0 {
		return c.cost
	}
	if len(values) == 1 {
		if n, ok := ParseCost(values[0], (*engine.Rule)(limit).CostScale()); ok && n <= (*engine.Rule)(limit).MaxCost() {
			return n
		}
	}
	s.badCosts = append(s.badCosts, c.limit)
	switch {
	case c.onBad == BadCostDeny:
		return (*engine.Rule)(limit).MaxCost() + 1
	case c.onBad == BadCostReject && limit.Config().Mode == fastlimit.Enforce && s.refused == nil:
		s.refused = c.limit
	}
	return c.cost
}

// ParseCost reads a cost of 1 to 19 digits and nothing else, so that proxy and limiter
// cannot disagree about "1e3", "+5" or "5, 7". At a scale of 1000 a point and one to three
// more digits may follow. The result is at that scale, and not 0.
func ParseCost(b []byte, scale uint64) (n uint64, ok bool) {
	n, ok = parseCost(b, scale)
	return n, ok && n > 0
}

// parseCost is ParseCost that also accepts 0.
func parseCost(b []byte, scale uint64) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 19 { // all shorter numbers fit a word
		return 0, false
	}
	whole, rest, point := bytes.Cut(b, []byte{'.'})
	if !point {
		n, ok = digits(b)
		hi, n := bits.Mul64(n, scale)
		return n, ok && hi == 0
	}
	if scale == 1 || len(whole) == 0 || len(rest) == 0 || len(rest) > 3 {
		return 0, false
	}
	n, ok1 := digits(whole)
	f, ok2 := digits(rest)
	for range 3 - len(rest) {
		f *= 10
	}
	hi, n := bits.Mul64(n, scale)
	n, carry := bits.Add64(n, f, 0)
	return n, ok1 && ok2 && hi+carry == 0
}

// digits reads up to 19 digits.
func digits(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, true
}
