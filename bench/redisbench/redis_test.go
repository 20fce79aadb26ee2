package redisbench

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	t.Parallel()
	results, err := Run(t.Context(), Options{Clients: 1000, Flood: 2000, Duration: 500 * time.Millisecond, Checks: 500, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 6 {
		t.Fatalf("%d results, want 6: %+v", len(results), results)
	}
	flood := results[0]
	if *flood.FalseDenials != 0 {
		t.Errorf("%d false denials, want 0", *flood.FalseDenials)
	}
	// The flood is over its limit by far, so that Redis is asked, but for few
	// of the requests: one take in flight answers for all who wait.
	if *flood.StorePerSecond <= 0 || *flood.StorePerRequest <= 0 || *flood.StorePerRequest > 0.5 {
		t.Errorf("Redis is asked %v times for a request, %v times a second", *flood.StorePerRequest, *flood.StorePerSecond)
	}
	for _, r := range results[1:] {
		if *r.PerSecond <= 0 || r.Requests != 500 || *r.CPUMicros <= 0 || *r.StoreCPUMicros <= 0 {
			t.Errorf("%s: %v checks per second, %d checks, %v and %v µs", r.Limiter, *r.PerSecond, r.Requests, *r.CPUMicros, *r.StoreCPUMicros)
		}
		if usual := r.Limiter == "EVALSHA per request"; usual == (r.Speedup != nil) {
			t.Errorf("%s: compared with the usual way: %v", r.Limiter, r.Speedup != nil)
		}
	}
}

func TestRunWithoutRedis(t *testing.T) {
	t.Parallel()
	o := Options{Path: "no-such-redis-server"}
	if err := o.Check(); err == nil || !strings.Contains(err.Error(), "no-such-redis-server") {
		t.Errorf("error %v, want one that names the program", err)
	}
	if o.Version(t.Context()) != "" {
		t.Error("a version of what is not there")
	}
}

func TestRunCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, Options{Duration: time.Hour}); err == nil {
		t.Error("no error")
	}
}

func TestPacedEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	paced(ctx, 1e6, func(i int) {
		if i != n {
			t.Fatalf("call %d has number %d", n, i)
		}
		if n++; n == 1000 {
			cancel()
		}
	})
	if n != 1000 {
		t.Errorf("%d calls, want 1000", n)
	}
}
