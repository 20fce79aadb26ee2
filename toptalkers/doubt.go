package toptalkers

import "math"

// Doubt is what is not known of the clients of a rule. The zero value is none.
type Doubt struct {
	Units uint64 // of one client, that may not be told of
	Grain uint64 // g: each denied unit was told of by a chance of 1/g, as g units; 0 and 1: all were
}

// and adds what another source does not tell.
func (d Doubt) and(o Doubt) Doubt {
	return Doubt{Units: d.Units + o.Units, Grain: max(d.Grain, o.Grain)}
}

// certainty is L: what chance does worse occurs less than once in e^L times, two
// million, to each side.
const certainty = 14.6

// Of is how far the truth may be from units that were told of a client.
//
// Each denied unit was counted by a chance of 1/g for g units, or surely for
// less. With x the sum of what was counted, in g, and y its mean, Chernoff's
// bound for independent values of 0 to 1 is, to either side,
//
//	P <= exp(-(y - x + x·ln(x/y))) <= exp(-L)  where  |y - x| >= L + min(√(L² + 2xL), 2√(xL))
//
// the first by (y-x)²/2y and (x-y)²/(x+y), the second by (√y - √x)², neither of
// which exceeds the exponent.
func (d Doubt) Of(units uint64) float64 {
	hidden := float64(d.Units)
	if d.Grain <= 1 {
		return hidden
	}
	g := float64(d.Grain)
	x := (float64(units) + hidden) / g
	return hidden + g*(certainty+min(math.Sqrt(certainty*certainty+2*x*certainty), 2*math.Sqrt(x*certainty)))
}
