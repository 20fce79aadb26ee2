package bucket

import "math"

// OverflowChance bounds the chance that one of so many clients finds no room in a table for
// 4·n buckets: the expected number of groups of sets that are both candidates of more
// clients than they hold. It is meant for tables up to half full, where it is next to
// nothing: less than n^-6, most of it from nine clients with the same pair of sets. For
// much fuller tables it has no meaning.
func OverflowChance(n, clients int) float64 {
	const groups = 64 // larger ones are even less likely
	m := physicalSets(n)
	tooMany := func(v int, share float64) float64 { // with both candidates among v sets
		most := ways*v + 1
		if most > clients {
			return 0
		}
		return math.Exp(choose(clients, most) + float64(most)*math.Log(share))
	}
	// A pair of sets has 2 of m² combinations of home and ID, a pair half a turn apart 4;
	// see other.
	square := float64(m) * float64(m)
	half := float64(m) / 2
	sum := half*tooMany(2, 4/square) + (square/2-2*half)*tooMany(2, 2/square)
	for v := 3; v <= min(m, groups); v++ {
		sum += math.Exp(choose(m, v)) * tooMany(v, float64(v*v)/square)
	}
	return min(1, sum)
}

// choose returns the logarithm of the binomial coefficient.
func choose(n, k int) float64 {
	lg := func(x int) float64 { l, _ := math.Lgamma(float64(x + 1)); return l }
	return lg(n) - lg(k) - lg(n-k)
}
