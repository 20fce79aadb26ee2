//go:build linux

package redisbench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Not parallel: faults change how this process resolves names.
func TestRunFaults(t *testing.T) {
	want := []string{"none", "refused", "name unknown", "FLUSHALL"}
	results, err := RunFaults(t.Context(), FaultOptions{Only: want, Timeout: 50 * time.Millisecond, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range results {
		name := r.Workload
		names = append(names, name)
		if r.Requests == 0 || *r.TimeoutMicros != 50_000 || r.LatencyMicros["max"] < r.LatencyMicros["p99.9"] || r.LagMicros["max"] <= 0 || *r.BackMillis < 0 {
			t.Errorf("%s: %+v", name, r)
		}
		for policy, admitted := range r.DegradedAdmitted {
			if (admitted == 1) != (policy != "closed") || admitted != 0 && admitted != 1 {
				t.Errorf("%s: of what policy %s decided %v was admitted", name, policy, admitted)
			}
		}
		if away := name == "refused" || name == "name unknown"; away && (*r.Degraded < 0.5 || len(r.DegradedAdmitted) != 3) {
			t.Errorf("%s: %v decided without Redis, by %v", name, *r.Degraded, r.DegradedAdmitted)
		}
	}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("faults %q, want %q", names, want)
	}
}

func TestRunFaultsRefuses(t *testing.T) {
	if _, err := RunFaults(t.Context(), FaultOptions{Only: []string{"none", "locusts"}}); err == nil || !strings.Contains(err.Error(), "locusts") {
		t.Errorf("unknown fault: %v", err)
	}
	if _, err := RunFaults(t.Context(), FaultOptions{Redis: "no-such-redis-server"}); err == nil || !strings.Contains(err.Error(), "no-such-redis-server") {
		t.Errorf("no Redis: %v", err)
	}
	if _, err := RunHTTP(t.Context(), HTTPOptions{Fastlimit: "no-such-fastlimit"}); err == nil || !strings.Contains(err.Error(), "no-such-fastlimit") {
		t.Errorf("no fastlimit: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := RunFaults(ctx, FaultOptions{Only: []string{"none"}, Duration: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}
