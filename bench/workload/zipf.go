package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Zipf draws ranks 1 to n with probability proportional to rank^-s, for any
// s > 0, in constant time and memory: rejection-inversion of W. Hörmann and G.
// Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", ACM TOMACS 6(3), 1996. The generator of math/rand/v2 needs
// s > 1, and the popularity of web clients is often flatter.
//
// It is not safe for concurrent use. The zero value is not usable: call
// [NewZipf].
type Zipf struct {
	rng        *rand.Rand
	s          float64
	n          float64
	hFirst, hN float64 // the integral of the hat at both ends
	squeeze    float64 // at most so far from a rank every draw is accepted
}

// NewZipf returns a generator of ranks 1 to n with exponent s.
func NewZipf(rng *rand.Rand, s float64, n int) (*Zipf, error) {
	if !(s > 0) || math.IsInf(s, 0) || n < 1 {
		return nil, fmt.Errorf("bench: Zipf exponent %v over %d ranks: want an exponent above 0 and 1 rank or more", s, n)
	}
	z := &Zipf{rng: rng, s: s, n: float64(n)}
	z.hFirst = z.integral(1.5) - 1
	z.hN = z.integral(z.n + 0.5)
	z.squeeze = 2 - z.inverse(z.integral(2.5)-z.hat(2))
	return z, nil
}

// Next draws a rank.
func (z *Zipf) Next() int {
	for {
		u := z.hN + z.rng.Float64()*(z.hFirst-z.hN)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.squeeze || u >= z.integral(k+0.5)-z.hat(k) {
			return int(k)
		}
	}
}

// hat is x^-s.
func (z *Zipf) hat(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

// integral is that of hat from 1 to x: (x^(1-s) - 1)/(1-s), or log x at s = 1,
// without the loss of digits in between.
func (z *Zipf) integral(x float64) float64 {
	l := math.Log(x)
	return expm1Ratio((1-z.s)*l) * l
}

// inverse is the x at which integral is u.
func (z *Zipf) inverse(u float64) float64 {
	t := max(u*(1-z.s), -1) // rounding may step over the pole
	return math.Exp(log1pRatio(t) * u)
}

// expm1Ratio is (e^x - 1)/x.
func expm1Ratio(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Expm1(x) / x
	}
	return 1 + x/2
}

// log1pRatio is log(1+x)/x.
func log1pRatio(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Log1p(x) / x
	}
	return 1 - x/2
}
