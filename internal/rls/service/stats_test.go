package service

import (
	"testing"

	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
)

// TestSeries: which series a request counts in, by its limit's settings.
func TestSeries(t *testing.T) {
	t.Parallel()
	const file = `
domain: d
descriptors:
  - key: plain
    rate_limit: &l {unit: day, requests_per_unit: 9}
    descriptors: [{key: sub, rate_limit: *l, descriptors: [{key: deep, rate_limit: *l}]}]
  - key: detailed
    detailed_metric: true
    rate_limit: *l
  - key: valued
    value_to_metric: true
    descriptors: [{key: sub, value: x, rate_limit: *l}, {key: sub, rate_limit: *l}]
  - {key: wild, value: a*, rate_limit: *l}
  - {key: wildvalued, value: a*, value_to_metric: true, rate_limit: *l}
  - {key: shared, value: a*, share_threshold: true, value_to_metric: true, detailed_metric: true, rate_limit: *l}
`
	for _, c := range []struct{ entries, key1, key2 string }{
		{"plain=1", "plain", ""},
		{"plain=1 sub=2", "plain", "sub"},
		{"plain=1 sub=2 deep=3", "plain", "sub"},
		{"detailed=1", "detailed_1", ""},
		{"detailed=", "detailed_", ""},
		{"valued=1 sub=2", "valued_1", "sub"},
		{"valued=1 sub=x", "valued_1", "sub_x"},
		{"wild=ab", "wild_a*", ""},
		{"wildvalued=ab", "wildvalued_ab", ""},
		{"shared=ab", "shared_a*", ""},
	} {
		s := newService(t, Config{}, file)
		decide(t, s, noon, request(c.entries))
		if got := s.stats.Series(stats.Labels{Domain: "d", Key1: c.key1, Key2: c.key2}).Total.Load(); got != 1 {
			t.Errorf("%s: %d hits of %s %s", c.entries, got, c.key1, c.key2)
		}
	}
	s := newService(t, Config{Shadow: true}, file)
	r := request("other=1 b=")
	r.Descriptors[0].Override = &Override{0, descriptor.Day}
	decide(t, s, noon, r)
	got := s.stats.Series(stats.Labels{Domain: "d", Key1: "other_1", Key2: "b"})
	if got.Over.Load() != 1 || s.stats.GlobalShadow.Load() != 1 {
		t.Errorf("an override: %d over, %d admitted in shadow mode", got.Over.Load(), s.stats.GlobalShadow.Load())
	}
}
