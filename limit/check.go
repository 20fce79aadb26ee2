package limit

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/field"
)

// report collects the problems of a configuration, as [FieldError]s.
type report struct{ errs []error }

func (r *report) add(rule, name, fix, format string, args ...any) {
	r.errs = append(r.errs, &FieldError{Package: "fastlimit", Rule: rule, Field: name, Problem: fmt.Sprintf(format, args...), Fix: fix})
}

// wrap adds the problems that package bucket has found to those of a rule.
func (r *report) wrap(rule string, err error) {
	for _, e := range field.All(err) {
		r.add(rule, e.Field, e.Fix, "%s", e.Problem)
	}
}

// addAll adds the problems of another report, with a prefix before the names of fields.
func (r *report) addAll(prefix string, other *report) {
	for _, err := range other.errs {
		if e, ok := err.(*FieldError); ok { //nolint:errorlint // made by add
			e.Field = prefix + e.Field
		}
		r.errs = append(r.errs, err)
	}
}

const (
	smallBurst   = 10  // below this θ defaults to 0
	defaultTheta = 0.5 // the sketch admits half the burst without a check
)

// withDefaults returns the rule with its defaults filled in, and reports all that is wrong
// with it.
func (c RuleConfig) withDefaults(bad *report) RuleConfig {
	if c.Name == "" {
		bad.add(c.Name, "Name", "every rule needs one", "is empty")
	}
	c.checkText(bad)
	if c.Algorithm >= bucket.NumAlgorithms {
		bad.add(c.Name, "Algorithm", "want LeakyBucket, TokenBucket, FixedWindow, SlidingWindow or SlidingLog", "%v is not known", c.Algorithm)
	}
	rated := c.checkRate(bad)
	sized := rated || c.Burst > 0
	c.checkWindow(bad)
	if c.Burst == 0 {
		c.Burst = c.Rate.N
	}
	sized = sized && c.checkBurst(bad, rated)
	if c.Cost == 0 {
		c.Cost = c.CostScale()
	}
	switch {
	case !sized || (c.Cost-1)/c.CostScale() < c.Burst:
	case c.Algorithm.Periodic():
		bad.add(c.Name, "Cost", "lower it, or raise the rate", "cost %d is above the %d of a period: no request would ever be admitted", c.Cost, c.Burst)
	default:
		bad.add(c.Name, "Cost", "lower it, or raise burst", "cost %s is above burst %d: no request would ever be admitted", c.FormatCost(c.Cost), c.Burst)
	}
	c.checkWait(bad)
	c.checkMaxRate(bad)
	c.checkThousandths(bad)
	var err error
	c.Ban, err = c.Ban.WithDefaults()
	bad.wrap(c.Name, err)
	c.Strict = c.Strict || c.MaxRate != Rate{}
	if c.Mode > Shadow {
		bad.add(c.Name, "Mode", "want Enforce or Shadow", "%d is not a mode", c.Mode)
	}
	if c.OnFailure > FailClosed {
		bad.add(c.Name, "OnFailure", "want FailLocal, FailOpen or FailClosed", "%d is not one of them", c.OnFailure)
	}
	theta := defaultTheta
	switch {
	case c.Strict, c.EscalateAt == nil && c.Burst < smallBurst:
		theta = 0
	case c.EscalateAt != nil:
		theta = *c.EscalateAt
	}
	if !(theta >= 0 && theta <= 1) {
		bad.add(c.Name, "EscalateAt", "want 0 to 1", "%v is out of range", theta)
	}
	c.EscalateAt = &theta
	c.IPv4Prefix, c.IPv6Prefix = cmp.Or(c.IPv4Prefix, 32), cmp.Or(c.IPv6Prefix, 64)
	if c.IPv4Prefix < 1 || c.IPv4Prefix > 32 {
		bad.add(c.Name, "IPv4Prefix", "want 1 to 32", "/%d is out of range", c.IPv4Prefix)
	}
	if c.IPv6Prefix < 1 || c.IPv6Prefix > 128 {
		bad.add(c.Name, "IPv6Prefix", "want 1 to 128", "/%d is out of range", c.IPv6Prefix)
	}
	return c
}

// checkText reports text by which fastlimit.Load could not find the rule again: JSON
// replaces bytes that are not UTF-8.
func (c *RuleConfig) checkText(bad *report) {
	for _, t := range [...]struct{ field, text string }{{"Name", c.Name}, {"KeyKind", c.KeyKind}} {
		if !utf8.ValidString(t.text) {
			bad.add(c.Name, t.field, "encode it as UTF-8, or escape it as strconv.Quote does", "%q is not UTF-8", t.text)
		}
	}
}

// checkWindow reports settings that have no meaning with windows, or without them.
func (c *RuleConfig) checkWindow(bad *report) {
	switch {
	case c.Algorithm.Periodic() && c.Burst != 0 && c.Burst != c.Rate.N:
		bad.add(c.Name, "Burst", "remove it, or choose LeakyBucket", "burst %d has no meaning with a %v, which admits what its rate says in each period", c.Burst, c.Algorithm)
	case c.CountDenied && (!c.Algorithm.Periodic() || c.Algorithm == SlidingLog):
		bad.add(c.Name, "CountDenied", "remove it, or choose FixedWindow or SlidingWindow", "a %v does not count denied requests", c.Algorithm)
	}
}

// checkThousandths reports rules that cannot count in thousandths. The words of windows and
// of stores hold whole units. A log would hold a thousand times for each unit. The T of a
// named rate is rounded down to a tick, which is too coarse for a thousandth.
func (c *RuleConfig) checkThousandths(bad *report) {
	switch {
	case !c.Thousandths:
	case c.Algorithm.Periodic():
		bad.add(c.Name, "Thousandths", "write a whole cost, or choose LeakyBucket", "a %v counts whole units", c.Algorithm)
	case c.MaxRate != Rate{}:
		bad.add(c.Name, "Thousandths", "remove one of the two", "has no exact meaning with MaxRate: any rate may be named")
	}
}

// checkRate reports whether the rate can be enforced exactly.
func (c *RuleConfig) checkRate(bad *report) bool {
	_, err := c.newShape(1)
	if errors.Is(err, bucket.ErrInexact) {
		fix, with := "write fewer digits", ""
		if exact, ok := c.nearestExact(); ok {
			fix = "write " + exact.inSeconds().String()
		} else if c.Thousandths {
			fix = "lower it, or write whole costs"
		}
		if _, err := bucket.NewShape(c.Rate.N, c.Rate.Per, 1); err == nil {
			with = " with costs in thousandths"
		}
		bad.add(c.Name, "Rate", fix, "rate %v cannot be kept exactly%s", c.Rate, with)
	} else {
		bad.wrap(c.Name, err)
	}
	return err == nil
}

// checkBurst checks the burst against the rate or, if that is wrong, against the rate that
// admits the largest bursts.
func (c *RuleConfig) checkBurst(bad *report, rated bool) bool {
	if c.Algorithm.Periodic() {
		return rated
	}
	rate := c.Rate
	if !rated {
		rate = Rate{N: 1, Per: time.Microsecond}
	}
	_, err := bucket.NewShape(rate.N, rate.Per, c.Burst)
	if err == nil && rated {
		_, err = c.newShape(c.Burst)
	}
	bad.wrap(c.Name, err)
	return err == nil
}

// nearestExact rounds N of the rate to as many leading digits as an exact rate allows.
func (c *RuleConfig) nearestExact() (Rate, bool) {
	other := *c
	for step := uint64(10); step <= c.Rate.N; step *= 10 {
		other.Rate.N = (c.Rate.N + step/2) / step * step
		if _, err := other.newShape(1); err == nil {
			return other.Rate, true
		}
	}
	return Rate{}, false
}
