package limit

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of units per period. The zero value is no rate and is
// rejected by [NewPlan].
type Rate struct {
	N   uint64
	Per time.Duration
}

// ParseRate reads "100/s", "600/m", "5/h", "1/d" or, with a multiple of the
// unit, "300/15m". Rates go from 1/d to 1000000000/s. The error is a [FieldError].
func ParseRate(s string) (Rate, error) {
	bad := func(why string) (Rate, error) {
		return Rate{}, &FieldError{
			Package: "fastlimit", Field: "Rate", Problem: "rate " + strconv.Quote(s) + ": " + why, Fix: "write for example 100/s, 600/m, 5/h, 1/d or 300/15m",
		}
	}
	num, per, found := strings.Cut(s, "/")
	if !found {
		return bad("no \"/\"")
	}
	n, err := strconv.ParseUint(num, 10, 64)
	if err != nil || n == 0 {
		return bad(fmt.Sprintf("%q is not a whole number above 0", num))
	}
	unit, ok := units[per[max(0, len(per)-1):]]
	if !ok {
		return bad("the period must end in s, m, h or d")
	}
	count := uint64(1)
	if digits := per[:len(per)-1]; digits != "" {
		count, err = strconv.ParseUint(digits, 10, 32)
		if err != nil || count == 0 {
			return bad(fmt.Sprintf("%q is not a whole number above 0", digits))
		}
	}
	if count > uint64(maxPeriod/unit) {
		return bad("the period is longer than 366d")
	}
	return Rate{N: n, Per: time.Duration(count) * unit}, nil
}

// PerSecond returns the rate in units per second.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}
	return float64(r.N) / r.Per.Seconds()
}

// String returns the rate in the form that [ParseRate] reads.
func (r Rate) String() string {
	for _, u := range []string{"d", "h", "m", "s"} {
		switch {
		case r.Per == units[u]:
			return fmt.Sprintf("%d/%s", r.N, u)
		case r.Per > 0 && r.Per%units[u] == 0:
			return fmt.Sprintf("%d/%d%s", r.N, r.Per/units[u], u)
		}
	}
	return fmt.Sprintf("%d/%v", r.N, r.Per)
}

// inSeconds returns the same rate per whole seconds, the shortest period that [ParseRate]
// reads: 3/2ms as 1500/s. It returns a rate that does not fit unchanged.
func (r Rate) inSeconds() Rate {
	if r.Per <= 0 || r.Per%time.Second == 0 {
		return r
	}
	a, b := time.Second, r.Per
	for b > 0 {
		a, b = b, a%b
	}
	times := time.Second / a
	hi, n := bits.Mul64(r.N, uint64(times))
	if hi != 0 || r.Per > math.MaxInt64/times {
		return r
	}
	per := r.Per * times
	if seconds := uint64(per / time.Second); n%seconds == 0 {
		return Rate{N: n / seconds, Per: time.Second}
	}
	return Rate{N: n, Per: per}
}

// above compares exactly: N1·P2 > N2·P1.
func (r Rate) above(other Rate) bool {
	hi1, lo1 := bits.Mul64(r.N, uint64(max(0, other.Per)))
	hi2, lo2 := bits.Mul64(other.N, uint64(max(0, r.Per)))
	return hi1 > hi2 || hi1 == hi2 && lo1 > lo2
}

const maxPeriod = 366 * 24 * time.Hour

var units = map[string]time.Duration{
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// slowest is the slowest rate.
var slowest = Rate{N: 1, Per: 24 * time.Hour}
