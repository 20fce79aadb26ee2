package oracle

import (
	"fmt"
	"time"

	"github.com/fastlimit/fastlimit"
)

// Rule is the limit that every limiter is given. The zero value is 100/s with
// a burst of 200, the default of `fastlimit serve`.
type Rule struct {
	Rate  fastlimit.Rate
	Burst uint64
}

// WithDefaults is the rule with its zero fields filled in.
func (r Rule) WithDefaults() Rule {
	if r.Rate == (fastlimit.Rate{}) {
		r.Rate = fastlimit.Rate{N: 100, Per: time.Second}
	}
	if r.Burst == 0 {
		r.Burst = 2 * r.Rate.N
	}
	return r
}

// String is the rule in words.
func (r Rule) String() string { return fmt.Sprintf("%v, burst %d", r.Rate, r.Burst) }

// Window is B/r: a counter that holds B and is reset so often lets r pass in the
// long run.
func (r Rule) Window() time.Duration {
	return time.Duration(float64(r.Burst) / r.Rate.PerSecond() * float64(time.Second))
}
