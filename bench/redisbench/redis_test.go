package redisbench

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/workload"
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

// Judged by the oracle with its buckets in Redis: nobody is denied falsely, and
// Redis is asked about few of the requests of a hot client.
func TestContender(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr, err := proc.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	server, err := proc.Start(t.Context(), proc.Config{
		Path: path, Dir: dir, Addr: addr, Args: []string{"--bind", "127.0.0.1", "--port", port, "--save", ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	hot, err := workload.Find("hot-key")
	if err != nil {
		t.Fatal(err)
	}
	results, err := inproc.Accuracy(t.Context(), inproc.AccuracyOptions{
		Options:   inproc.Options{Contenders: []inproc.Contender{Contender("redis://" + addr + "/0")}},
		Workloads: []*workload.Workload{hot}, Requests: 10_000, Duration: time.Second,
	})
	if err != nil || len(results) != 1 || results[0].Error != "" {
		t.Fatalf("%+v, %v", results, err)
	}
	r := results[0]
	if *r.FalseDenials != 0 || *r.Denied == 0 || *r.StorePerRequest <= 0 || *r.StorePerRequest > 0.2 {
		t.Errorf("%d false denials, %v denied, %v operations per request", *r.FalseDenials, *r.Denied, *r.StorePerRequest)
	}
}

func TestContenderWithoutRedis(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"redis://:secret@127.0.0.1:1/0": "127.0.0.1:1", "nonsense": "redis://"} {
		_, err := Contender(url).New(oracle.Rule{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want one with %s and without the password", err, want)
		}
	}
}
