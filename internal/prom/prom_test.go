package prom

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Every kind of metric, and one read of the struct for all of them.
func TestCollector(t *testing.T) {
	t.Parallel()
	type stats struct {
		n     uint64
		level float64
	}
	reads := 0
	c := Collector(func() stats { reads++; return stats{7, 0.5} }, []Metric[stats]{
		Counter("a_total", "A.", func(s *stats) uint64 { return s.n }),
		Gauge("b", "B.", func(s *stats) float64 { return s.level }),
		Counters("c_total", "C.", []string{"x", "y"}, func(s *stats, add func(uint64, ...string)) {
			add(s.n+1, "one", "two")
			add(s.n+2, "three", "four")
		}),
		Gauges("d", "D.", []string{"x"}, func(s *stats, set func(float64, ...string)) { set(s.level, "one") }),
		Histogram("e", "E.", func(s *stats) (uint64, float64, map[float64]uint64) {
			return s.n, s.level, map[float64]uint64{1: 3, 2: s.n}
		}),
	})
	want := `
# HELP fastlimit_a_total A.
# TYPE fastlimit_a_total counter
fastlimit_a_total 7
# HELP fastlimit_b B.
# TYPE fastlimit_b gauge
fastlimit_b 0.5
# HELP fastlimit_c_total C.
# TYPE fastlimit_c_total counter
fastlimit_c_total{x="one",y="two"} 8
fastlimit_c_total{x="three",y="four"} 9
# HELP fastlimit_d D.
# TYPE fastlimit_d gauge
fastlimit_d{x="one"} 0.5
# HELP fastlimit_e E.
# TYPE fastlimit_e histogram
fastlimit_e_bucket{le="1"} 3
fastlimit_e_bucket{le="2"} 7
fastlimit_e_bucket{le="+Inf"} 7
fastlimit_e_sum 0.5
fastlimit_e_count 7
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if reads != 1 {
		t.Errorf("the struct was read %d times in one scrape", reads)
	}
}
