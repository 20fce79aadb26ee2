package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fastlimit/fastlimit/bench/peers"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/workload"
	"github.com/fastlimit/fastlimit/bucket"
)

// TestMain lets the test binary be the program, and its measuring processes.
func TestMain(m *testing.M) {
	if os.Getenv("PEERBENCH_TEST") == "main" {
		main()
	}
	os.Exit(m.Run())
}

// peerbench runs the program to its end.
func peerbench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PEERBENCH_TEST=main")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestPeersHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range peers.All("redis://127.0.0.1:1/0") {
		if seen[c.Name] {
			t.Errorf("two limiters are called %q", c.Name)
		}
		seen[c.Name] = true
	}
	if len(seen) != 6 || len(peers.All("")) != 5 {
		t.Errorf("%d limiters, %d without a Redis", len(seen), len(peers.All("")))
	}
}

// One short run over every peer that needs no server of the user's leaves no result without a
// figure: in this process, in those that it starts, and in real time.
func TestMeasure(t *testing.T) {
	t.Parallel()
	limiters := 2 + len(peers.All(""))
	for _, c := range []struct {
		args string
		want int
	}{
		{"accuracy --requests=2000 --duration=50ms", limiters * len(workload.All())},
		{"local --workload=hot-denied --cores=1 --rounds=1", 2 + limiters + 2}, // two clocks, fastlimit with its own, none
		// Two clocks; for one client admitted and denied all peers with redis_rate, the reference
		// and none, and fastlimit by algorithm: as it is, strict, on Redis.
		{"algorithms --rounds=1", 2 + 2*(limiters+1+3*int(bucket.NumAlgorithms))},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := peerbench(t, append(strings.Fields(c.args), "-o", "json")...)
			var r report.Report
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || stderr != "" {
				t.Fatalf("exit %d, %v, %s", code, err, stderr)
			}
			if len(r.Results) != c.want {
				t.Errorf("%d results, want %d", len(r.Results), c.want)
			}
			for _, r := range r.Results {
				if r.Error != "" || r.FalseDenials == nil && r.NsPerOp == nil {
					t.Errorf("%s, %s: %q", r.Workload, r.Limiter, r.Error)
				}
			}
		})
	}
}

// A Redis that does not answer is an error before anything is measured.
func TestMeasureRefuses(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"local", "accuracy", "algorithms"} {
		code, stdout, stderr := peerbench(t, group, "--redis", "redis://127.0.0.1:1/0?dial_timeout=100ms&max_retries=-1")
		if code != 1 || stdout != "" || !strings.Contains(stderr, "--redis: ") {
			t.Errorf("%s: exit %d, %q, %q", group, code, stdout, stderr)
		}
	}
}
