package policy

import (
	"unsafe"

	"github.com/fastlimit/fastlimit"
)

// RateSource says where the rate of a client comes from, if not from the rule.
type RateSource struct {
	// Header is the name of a header with the rate of the client, in the form of
	// [fastlimit.ParseRate]. It counts only if a trusted proxy has sent it, which must
	// overwrite what its own clients send. A request without it is charged at the rule's
	// rate. So is one with a bad rate, which is counted: text that is not a rate, or
	// several rates. A client with an override has the override's limit instead. "" means
	// none.
	Header string

	// Max is the highest rate. A client for which a higher one is named gets this one; see
	// [fastlimit.Rule.AtRate] for all bounds.
	Max fastlimit.Rate
}

// maxRateText is longer than any rate.
const maxRateText = 40

// CheckRateFrom checks RateFrom. The error is a [fastlimit.FieldError].
func (r *RuleSpec) CheckRateFrom() error {
	switch h := r.RateFrom.Header; {
	case h != "" && !isToken(h):
		return r.invalid("RateFrom.Header", "want a header such as X-Limit", "%q is not the name of a header", h)
	case h == "" && r.RateFrom.Max != fastlimit.Rate{}:
		return r.invalid("RateFrom.Header", "name a header", "is empty although Max is set")
	case h != "" && r.RateFrom.Max == fastlimit.Rate{}:
		return r.invalid("RateFrom.Max", "write for example max: 1000/s", "is missing")
	}
	return nil
}

// named returns the limit by which a request of a trusted proxy is charged, for a client
// with that limit, and its cost.
func (c *rule) named(f Fields, limit *fastlimit.Rule, s *Scratch) (*fastlimit.Rule, uint64) {
	if c.rateFrom != "" && limit == c.limit {
		limit = c.atNamedRate(f, s)
	}
	if c.costFrom == "" {
		return limit, c.cost
	}
	return limit, c.namedCost(f, limit, s)
}

func (c *rule) atNamedRate(f Fields, s *Scratch) *fastlimit.Rule {
	values := f.Header(c.rateFrom)
	if len(values) == 0 {
		return c.limit
	}
	if v := values[0]; len(values) == 1 && len(v) <= maxRateText {
		// ParseRate copies what its error quotes.
		if rate, err := fastlimit.ParseRate(unsafe.String(unsafe.SliceData(v), len(v))); err == nil {
			return c.limit.AtRate(rate)
		}
	}
	s.badRates = append(s.badRates, c.limit)
	return c.limit
}
