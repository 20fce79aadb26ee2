package stats

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAdd compares with each hit counted by itself.
func TestAdd(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	all := New(0.8, nil)
	for range 20_000 {
		limit, before, n := uint32(r.IntN(20)), uint64(r.IntN(30)), uint64(r.IntN(10))
		after, shadow := before+n, r.IntN(2) == 0
		near := limit * 4 / 5
		var want [5]uint64 // total, within, near, over, shadow
		for hit := before + 1; hit <= after; hit++ {
			want[0]++
			if after <= uint64(limit) {
				want[1]++
			}
			if hit > uint64(near) && hit <= uint64(limit) {
				want[2]++
			}
			if hit > uint64(limit) {
				want[3]++
				if shadow {
					want[4]++
				}
			}
		}
		var s Series
		all.Add(&s, n, after, limit, shadow)
		if got := [5]uint64{s.Total.Load(), s.Within.Load(), s.Near.Load(), s.Over.Load(), s.Shadow.Load()}; got != want {
			t.Fatalf("limit %d, %d after %d, shadow %v: %v, want %v", limit, n, before, shadow, got, want)
		}
	}
}

// TestSeriesAreBounded: names of requests cannot make more than there is room for.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	all := New(0.8, func() uint64 { return 7 })
	for i := range maxSeries + 50 {
		s := all.Series(Labels{"d", fmt.Sprint("k", i), ""})
		if s != all.Series(Labels{"d", fmt.Sprint("k", i), ""}) {
			t.Fatal("a series changes")
		}
		all.Add(s, 1, 1, 9, false)
	}
	if len(all.series) > maxSeries+1 || all.Series(rest).Total.Load() != 50 {
		t.Errorf("%d series, %d hits of the rest", len(all.series), all.Series(rest).Total.Load())
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	all := New(0.8, func() uint64 { return 7 })
	all.Add(all.Series(Labels{"d:1", "ip_192.0.2.1|x", "a.b"}), 2, 2, 9, false)
	all.ConfigErrors.Add(3)
	all.ServiceErrors.Add(4)
	all.Observe("ShouldRateLimit", 0.002)
	all.Show(func() Cluster { return Cluster{Peers: 2, Unsent: 5, Rejected: 6} })
	w := httptest.NewRecorder()
	all.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	for _, want := range []string{
		`ratelimit_service_rate_limit_total_hits{domain="d_1",key1="ip_192_0_2_1_x",key2="a.b"} 2`,
		`ratelimit_service_rate_limit_within_limit{domain="d_1",key1="ip_192_0_2_1_x",key2="a.b"} 2`,
		`ratelimit_service_rate_limit_over_limit{domain="d_1",key1="ip_192_0_2_1_x",key2="a.b"} 0`,
		"ratelimit_service_config_load_success 0", "ratelimit_service_config_load_error 3", "ratelimit_service_global_shadow_mode 0",
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 4`, `ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 1`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.0025"} 1`, "ratelimit_service_evictions 7",
		"ratelimit_service_cluster_peers 2", "ratelimit_service_cluster_unsent 5", "ratelimit_service_cluster_rejected 6",
		"go_goroutines ", "process_resident_memory_bytes ",
	} {
		if !strings.Contains(w.Body.String(), "\n"+want) {
			t.Errorf("lacks %s", want)
		}
	}
}
