package limit

import (
	"time"

	"github.com/fastlimit/fastlimit/bucket"
)

// MaxNamedRates is how many rates of fastlimit.Rule.AtRate a rule caches. More may be
// named: then the limit for one is made again, while what clients have taken stays as it
// is.
const MaxNamedRates = 64

// namedBytes returns the most memory that a rule's limits for named rates take.
func (rp *RulePlan) namedBytes() int64 {
	if rp.Config.MaxRate == (Rate{}) {
		return 0
	}
	return MaxNamedRates * rp.fixedBytes()
}

// Bounded returns a rate that is named for a client, limited to the range between the
// slowest rate at which a checked rule can admit a request and MaxRate.
func (c *RuleConfig) Bounded(rate Rate) Rate {
	switch {
	case rate.above(c.MaxRate):
		return c.MaxRate
	case rate.N == 0, rate.Per <= 0:
		rate = slowest
	}
	// The rule must admit a request of its cost at any rate.
	for _, least := range [...]Rate{slowest, {N: c.Cost, Per: bucket.MaxFine}} {
		if least.above(rate) {
			rate = least
		}
	}
	return rate
}

// fine returns the bucket of a rule for which rates are named.
func (c *RuleConfig) fine(s bucket.Shape) (bucket.Shape, error) {
	fine, ok := s.Fine()
	if ok {
		return fine, nil
	}
	e := &FieldError{Package: "fastlimit", Field: "Burst", Problem: "takes longer than 12 days to leak, for a rule with MaxRate", Fix: "lower it, or raise the rate"}
	if one, _ := bucket.NewShape(c.Rate.N, c.Rate.Per, 1); one.PerMicro() > 1 {
		if _, ok := one.Fine(); !ok {
			e.Field, e.Problem, e.Fix = "Rate", "has too many digits for a rule with MaxRate", "write a round number such as 2000/s"
		}
	}
	return s, e
}

// checkMaxRate reports a MaxRate that is not a rate, or that the rule cannot have.
func (c *RuleConfig) checkMaxRate(bad *report) {
	if c.MaxRate == (Rate{}) {
		return
	}
	switch {
	case c.Algorithm.Periodic():
		bad.add(c.Name, "MaxRate", "remove it, or choose LeakyBucket", "has no meaning with a %v, whose periods begin at fixed times", c.Algorithm)
	case c.MaxRate.N == 0 || c.MaxRate.Per <= 0 || c.MaxRate.PerSecond() > bucket.MaxRate || slowest.above(c.MaxRate) || c.MaxRate.Per%time.Microsecond != 0:
		bad.add(c.Name, "MaxRate", "want 1/d to 1000000000/s", "rate %v is out of range", c.MaxRate)
	case c.MaxRate.Per > maxPeriod:
		bad.add(c.Name, "MaxRate", "want at most 366d", "the period of %v is too long", c.MaxRate)
	case c.EscalateAt != nil && *c.EscalateAt != 0:
		bad.add(c.Name, "EscalateAt", "remove one of the two", "has no meaning with MaxRate, with which every request is checked exactly")
	case c.Cost > c.MaxRate.N:
		bad.add(c.Name, "MaxRate", "raise it, or lower the cost", "cost %d is above the burst of %v, %d", c.Cost, c.MaxRate, c.MaxRate.N)
	}
}
