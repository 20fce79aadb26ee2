package report

import "testing"

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{5, 1}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.v); got != c.want {
			t.Errorf("%v: %v, want %v", c.v, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	v := []float64{5, 1, 3, 2, 4}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.6: 3.4, 1: 5} {
		if got := Quantile(v, q); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := Quantile([]float64{7}, 0.9); got != 7 {
		t.Errorf("quantile of one value is %v, want it", got)
	}
}
