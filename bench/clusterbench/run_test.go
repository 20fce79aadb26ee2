//go:build !race

// Under the race detector this takes minutes, and all is on one goroutine.

package clusterbench

import (
	"testing"
	"time"
)

// However many clients are active, what is sent stays below the ceiling, and
// what a peer does not know of a client within what the node says it may be.
func TestRun(t *testing.T) {
	t.Parallel()
	o := Options{Keys: []int64{10, 1000, 50_000}, PerSecond: 20_000, Duration: 15 * time.Second, TopTalkers: 1024, MaxBytes: 8 << 10}
	steps := 0
	o.Progress = func(done, total int, _ string) {
		if steps++; total != 6 || done > total {
			t.Errorf("step %d of %d", done, total)
		}
	}
	results, err := Run(t.Context(), o)
	if err != nil || len(results) != 6 || steps != 7 {
		t.Fatalf("%d results, %d steps, %v", len(results), steps, err)
	}
	ceiling := float64(o.MaxBytes) / 0.1
	for _, r := range results {
		if *r.SyncBytes > ceiling || r.Keys == 1000 && *r.SyncBytes < 0.9*ceiling || r.Keys == 10 && *r.SyncBytes > 0.1*ceiling {
			t.Errorf("%s, %d clients: %.0f bytes/s, ceiling %.0f", r.Workload, r.Keys, *r.SyncBytes, ceiling)
		}
		// Three epochs of 10 s have begun.
		const epochs = 3 * 10 / 16.
		if *r.SyncUntold > *r.SyncBound*epochs+1 {
			t.Errorf("%s, %d clients: %.1f units/s untold, bound %.1f", r.Workload, r.Keys, *r.SyncUntold, *r.SyncBound)
		}
		if r.Keys == 50_000 && *r.SyncBound == 0 || *r.SyncPackets < 10 || r.Requests != 300_000 {
			t.Errorf("%s, %d clients: bound %v, %v packets/s, %d requests", r.Workload, r.Keys, *r.SyncBound, *r.SyncPackets, r.Requests)
		}
	}
}
