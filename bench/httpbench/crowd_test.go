package httpbench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
)

// What comes while the server is halted is answered by it, and nothing is said of how
// fast that was. A bystander of another address is not denied, nor counted as flood.
func TestCrowds(t *testing.T) {
	o := Options{Servers: []Server{self(t), self(t)}, Rounds: 2, Requests: 1000, Duration: 400 * time.Millisecond}.withDefaults()
	var results []report.Result
	for ; results == nil || results[4].Requests < 2 || results[5].Requests < 2; o.Duration *= 2 { // until bystanders have answers
		var err error
		if results, err = o.run(t.Context(), o.crowds()); err != nil || len(results) != 6 {
			t.Fatalf("%d results, %v: want three pairs", len(results), err)
		}
	}
	for i, r := range results[:4] {
		if denied := i / 2; *r.Denied < 0.9*float64(denied) || denied == 0 && *r.Denied > 0 || r.Requests != 2*1000 || *r.CPUMicros <= 0 {
			t.Errorf("%s: %d requests, share %v denied, CPU %v µs", r.Workload, r.Requests, *r.Denied, *r.CPUMicros)
		}
		if other := i%2 == 1; r.PerSecond != nil || r.Error != "" && i < 2 || strings.HasPrefix(r.Verdict, "test to this one: CPU ratio ") != other {
			t.Errorf("%s: %v requests/s, %q, %q", r.Workload, r.PerSecond, r.Verdict, r.Error)
		}
	}
	for i, r := range results[4:] {
		if *r.ConformingDenied != 0 || r.LatencyMicros["p50"] <= 0 || r.LatencyMicros["p99"] < r.LatencyMicros["p50"] {
			t.Errorf("%d answers to the bystander, %d denials, %v", r.Requests, *r.ConformingDenied, r.LatencyMicros)
		}
		if other := i == 1; strings.Contains(r.Verdict, "the bystander's p50 ratio") != other || !strings.Contains(r.Verdict, "the server used ") {
			t.Errorf("verdict %q", r.Verdict)
		}
	}
}

// A flood of new connections follows --conns.
func TestReconnectFollowsConns(t *testing.T) {
	t.Parallel()
	var got []int
	for _, s := range (Options{Conns: []int{2, 3}, Reconnect: true}).withDefaults().shapes() {
		if s.reconnect {
			got = append(got, s.conns)
		}
	}
	if want := []int{2, 2, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("%v connections, want %v", got, want)
	}
}

// A generator that is interrupted may have halted the server, which goes on.
func TestHaltedServerGoesOn(t *testing.T) {
	t.Parallel()
	r := started(t)
	if err := proc.Halt(r.child.PID(), true); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := load.SpinConfig{Request: shape{reconnect: true}.request(), Conns: 1, Reconnect: true, Queue: true, Duration: time.Hour}
	if _, err := generate(ctx, r, c, nil); err == nil {
		t.Error("cancelled: no error")
	}
	if status, err := r.target.Probe(t.Context()); err != nil || status != 200 {
		t.Errorf("the server answers %d, %v", status, err)
	}
}
