package report

import (
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Median of at least one value.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile is the value below which a share q of at least one value lies,
// interpolated between neighbours.
func Quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := min(int(at), len(v)-1)
	if i == len(v)-1 {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Micros is a percentile in µs of a histogram in ns.
func Micros(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1e3
}

// Latencies are the percentiles that a [Result] has.
func Latencies(h *hdrhistogram.Histogram) map[string]float64 {
	return map[string]float64{
		"p50": Micros(h, 50), "p90": Micros(h, 90), "p99": Micros(h, 99), "p99.9": Micros(h, 99.9), "max": float64(h.Max()) / 1e3,
	}
}
