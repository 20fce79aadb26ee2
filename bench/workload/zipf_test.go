package workload

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestZipf compares the frequency of every rank with its probability, up to 5
// standard deviations, at exponents on both sides of 1 and at 1.
func TestZipf(t *testing.T) {
	t.Parallel()
	for _, s := range []float64{0.1, 0.5, 0.8, 1 - 1e-12, 1, 1 + 1e-9, 1.1, 2, 5} {
		for _, n := range []int{1, 2, 10, 1000} {
			t.Run(strconv.FormatFloat(s, 'g', -1, 64)+"/"+strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				z, err := NewZipf(rand.New(rand.NewPCG(1, uint64(n))), s, n)
				if err != nil {
					t.Fatal(err)
				}
				const draws = 200_000
				counts := make([]float64, n)
				for range draws {
					counts[z.Next()-1]++ // panics out of range
				}
				norm := 0.0
				for k := range counts {
					norm += math.Pow(float64(k+1), -s)
				}
				for k, got := range counts {
					p := math.Pow(float64(k+1), -s) / norm
					sigma := math.Sqrt(draws * p * (1 - p))
					// Rare ranks are Poisson: their tail is longer by a constant.
					if math.Abs(got-draws*p) > 5*sigma+3 {
						t.Errorf("rank %d: %v of %d draws, want %.1f ± %.1f", k+1, got, draws, draws*p, sigma)
					}
				}
			})
		}
	}
}

func TestZipfRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s float64
		n int
	}{{0, 1}, {-1, 1}, {math.NaN(), 1}, {math.Inf(1), 1}, {1, 0}} {
		if _, err := NewZipf(rand.New(rand.NewPCG(1, 1)), c.s, c.n); err == nil {
			t.Errorf("exponent %v, %d ranks: no error", c.s, c.n)
		}
	}
}
