package report

import (
	"math"
	"strings"
)

// axis maps values to positions from 0 to 1. "As scaled" is the value itself, or
// its decimal logarithm on a logarithmic axis. An axis without ticks is fitted to
// the values when the chart is drawn.
type axis struct {
	Label  string // with its unit
	log    bool
	ticks  []tick
	lo, hi float64 // as scaled
}

type tick struct {
	at   float64 // as scaled
	text string
}

func (a *axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

// position of a value, 0 to 1.
func (a *axis) position(v float64) float64 { return a.share(a.scale(v)) }

// share is how far along the axis a value lies that is scaled already.
func (a *axis) share(scaled float64) float64 { return (scaled - a.lo) / (a.hi - a.lo) }

// fit sets the ends of the axis to include all values, with ticks at round numbers.
// Values that a logarithmic axis cannot show are left out.
func (a *axis) fit(values []float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if a.shows(v) {
			lo, hi = min(lo, a.scale(v)), max(hi, a.scale(v))
		}
	}
	if lo > hi { // nothing to show
		lo, hi = 0, 1
	}
	if a.log {
		a.fitLog(lo, hi)
		return
	}
	a.fitLinear(min(lo, 0), hi)
}

// shows reports whether the axis has a place for a value: a logarithmic one has
// none for 0.
func (a *axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0)
}

// maxTicks is what fits beside each other on a phone.
const maxTicks = 6

// tickText leaves out zeros behind the point: 0.50 is 0.5.
func tickText(v float64) string {
	text := si(v)
	if strings.Contains(text, ".") && !strings.Contains(text, " ") {
		return strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// fitLinear has ticks at 1, 2 or 5 times a power of ten, whichever is the closest
// that keeps them few.
func (a *axis) fitLinear(lo, hi float64) {
	if hi <= lo {
		hi = lo + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/maxTicks)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(m*step) <= maxTicks {
			step *= m
			break
		}
	}
	a.lo, a.hi = math.Floor(lo/step)*step, math.Ceil(hi/step-1e-9)*step
	for i := 0; a.lo+float64(i)*step <= a.hi+step/2; i++ {
		v := math.Round((a.lo+float64(i)*step)/step) * step
		a.ticks = append(a.ticks, tick{v, tickText(v)})
	}
}

// fitLog has ticks at powers of ten, and at 2 and 5 times those where there is
// room.
func (a *axis) fitLog(lo, hi float64) {
	steps := []float64{1, 2, 5}
	if hi-lo > 2 {
		steps = []float64{1}
	}
	var at []float64
	for e := math.Floor(lo) - 1; e <= math.Ceil(hi)+1; e++ {
		for _, s := range steps {
			at = append(at, e+math.Log10(s))
		}
	}
	// From the last tick below all values to the first above them.
	const slack = 1e-9
	for len(at) > 1 && at[1] <= lo+slack {
		at = at[1:]
	}
	for len(at) > 1 && at[len(at)-2] >= hi-slack {
		at = at[:len(at)-1]
	}
	if len(at) == 1 {
		at = append(at, at[0]+1)
	}
	a.lo, a.hi = at[0], at[len(at)-1]
	every := (len(at) + 2*maxTicks - 1) / (2 * maxTicks)
	for i := 0; i < len(at); i += every {
		// The logarithm of 20 does not come back as 20.
		e := math.Floor(at[i] + slack)
		v := math.Round(math.Pow(10, at[i]-e)) * math.Pow(10, e)
		a.ticks = append(a.ticks, tick{at[i], tickText(v)})
	}
}
