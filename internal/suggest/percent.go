package suggest

import (
	"fmt"
	"math/bits"
	"strings"
)

// Percent is a share in millionths of a percent, so that 99.9 % of 1000 clients are 999
// and not one more. The zero value is no share and is rejected by [Run].
type Percent uint64

const (
	percent   Percent = 1_000_000
	hundred           = 100 * percent
	minSpared         = 50 * percent
)

// ParsePercent reads "99.9%", or "99.9" without the sign, from 50% to 100% and with up to six decimals. Less
// than half of the clients makes no sense as a limit, and is most likely a fraction such as 0.999.
func ParsePercent(s string) (Percent, error) {
	number := strings.TrimSpace(strings.TrimSuffix(s, "%"))
	whole, decimals, pointed := strings.Cut(number, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || pointed && !digits(decimals) {
		return 0, fmt.Errorf("%q is not a percentage; write for example 99.9%%", s)
	}
	if len(decimals) > 6 {
		return 0, fmt.Errorf("%q has more than six decimals; write for example 99.9%%", s)
	}
	p := Percent(0)
	for _, c := range whole + (decimals + "000000")[:6] {
		if p = 10*p + Percent(c-'0'); p > 10*hundred { // out of range, and far from an overflow
			break
		}
	}
	if p < minSpared || p > hundred {
		return 0, fmt.Errorf("%q is out of range; want 50%% to 100%%, for example 99.9%%", s)
	}
	return p, nil
}

// String is the form that [ParsePercent] reads.
func (p Percent) String() string {
	s := fmt.Sprintf("%d.%06d", p/percent, p%percent)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + "%"
}

// of is the least whole number that is at least this share of n.
func (p Percent) of(n int) int {
	hi, lo := bits.Mul64(uint64(p), uint64(n))
	q, rest := bits.Div64(hi, lo, uint64(hundred))
	if rest > 0 {
		q++
	}
	return int(q)
}
