//go:build linux

package postgresbench

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	t.Parallel()
	results, err := Run(t.Context(), Options{Clients: 1000, Flood: 2000, Duration: 500 * time.Millisecond, Checks: 200, Rounds: 1, Suspects: 5000})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 11 {
		t.Fatalf("%d results, want 11: %+v", len(results), results)
	}
	flood := results[0]
	// The flood is over its limit by far, so that PostgreSQL is asked, but for few of the
	// requests, and has a row of nobody else.
	if *flood.FalseDenials != 0 || *flood.StorePerSecond <= 0 || *flood.StorePerRequest <= 0 || *flood.StorePerRequest > 0.5 || !strings.HasSuffix(flood.Setup, ", 1 rows") {
		t.Errorf("%d false denials; asked %v times for a request, %v times a second; %s", *flood.FalseDenials, *flood.StorePerRequest, *flood.StorePerSecond, flood.Setup)
	}
	for _, r := range results[1:8] {
		if *r.PerSecond <= 0 || r.Requests != 200 || *r.CPUMicros <= 0 || *r.StoreCPUMicros <= 0 {
			t.Errorf("%s: %v checks per second, %d checks, %v and %v µs", r.Limiter, *r.PerSecond, r.Requests, *r.CPUMicros, *r.StoreCPUMicros)
		}
		if usual := r.Limiter == "upsert per request"; usual == (r.Speedup != nil) {
			t.Errorf("%s: compared with the usual way: %v", r.Limiter, r.Speedup != nil)
		}
	}
	full, pruned, again := *results[8].StoreBytes, *results[9].StoreBytes, *results[10].StoreBytes
	if full < 5000*100 || pruned >= full || again > 2*full {
		t.Errorf("the table has %d bytes, %d when pruned, %d after that", full, pruned, again)
	}
}

func TestRunCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := Run(ctx, Options{Duration: time.Hour}); err == nil {
		t.Error("no error")
	}
	if v := (Options{}).Version(t.Context()); !strings.Contains(v, ".") {
		t.Errorf("version %q", v)
	}
}
