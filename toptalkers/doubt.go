package toptalkers

import "math"

// Doubt bounds what is not known about the clients of a rule. The zero value means that
// everything is known.
type Doubt struct {
	Units uint64 // the most units of one client that may not have been reported
	Grain uint64 // g: denied units were sampled with probability 1/g and count as g; 0, 1: all were counted
}

// and adds the doubt of another source.
func (d Doubt) and(o Doubt) Doubt {
	return Doubt{Units: d.Units + o.Units, Grain: max(d.Grain, o.Grain)}
}

// certainty is L: chance exceeds the bound with probability e^-L on each side, less than
// one in two million.
const certainty = 14.6

// Of returns how far the true units of a client may be from the reported ones.
//
// Each denied unit was counted with probability 1/g as g units, or with
// certainty as fewer. With x the sum counted, in units of g, and y its mean, Chernoff's
// bound for independent values in [0, 1] is, to either side,
//
//	P <= exp(-(y - x + x·ln(x/y))) <= exp(-L)  where  |y - x| >= L + min(√(L² + 2xL), 2√(xL))
//
// The first term of the minimum follows from (y-x)²/2y and (x-y)²/(x+y), the second
// from (√y - √x)², neither of which exceeds the exponent.
func (d Doubt) Of(units uint64) float64 {
	hidden := float64(d.Units)
	if d.Grain <= 1 {
		return hidden
	}
	g := float64(d.Grain)
	x := (float64(units) + hidden) / g
	return hidden + g*(certainty+min(math.Sqrt(certainty*certainty+2*x*certainty), 2*math.Sqrt(x*certainty)))
}
