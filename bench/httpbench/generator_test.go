package httpbench

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/report"
)

// Requests are what they are said to be, as net/http reads them.
func TestHeads(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"host": 0, "browser": 10, "forwarded": 3} {
		for _, reconnect := range []bool{false, true} {
			b := shape{head: name, reconnect: reconnect}.request()
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r.Header.Del("Connection")
			if len(r.Header) != want || r.Host == "" || r.Close != reconnect || !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
				t.Errorf("%s: %d headers, want %d; host %q, close %v", name, len(r.Header), want, r.Host, r.Close)
			}
		}
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	o := Options{Conns: []int{32, 5000}, Headers: []string{"host", "browser"}, Reconnect: true, Idle: 10, Admin: true}.withDefaults()
	var names []string
	for _, p := range o.phases() {
		names = append(names, p.name)
	}
	for _, want := range []string{
		"all allowed", "one denied hot key", "all allowed, 5000 connections", "one denied hot key, 5000 connections, browser headers",
		"all allowed, one for each request, browser headers", "one denied hot key, one for each request, which the client closes",
		"all allowed, 5000 connections, one for each request", "all allowed, 500 new connections at once", "one denied hot key, 500 new connections at once",
		"bystander during a flood of connections", "idle connections", "operator during a flood", "flood",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no %q in %q", want, names)
		}
	}
	if len(names) != 2*6*2+3+3 || o.most() != 5000 {
		t.Errorf("%d phases, at most %d connections", len(names), o.most())
	}
	for _, bad := range []Options{{Headers: []string{"none"}}, {Conns: []int{0}}} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), "headers") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Servers are compared with the first. The bare one gives its answer, whichever that
// is, and is left out of the flood, in which answers differ.
func TestRunCompares(t *testing.T) {
	results, err := Run(t.Context(), Options{
		Servers: []Server{self(t), BareServer(false)}, Clients: 2, Rounds: 2, Requests: 50, Rate: 100, Duration: 200 * time.Millisecond,
		Rule: oracle.Rule{Rate: fastlimit.Rate{N: 10, Per: time.Second}, Burst: 20}, Headers: []string{"browser"},
	})
	if err != nil || len(results) != 5 {
		t.Fatalf("%d results, %v: want two pairs and a flood", len(results), err)
	}
	for i, r := range results[:4] {
		if bare := i%2 == 1; strings.HasPrefix(r.Verdict, "test to this one: requests/s ratio ") != bare || *r.Denied != float64(i/2) {
			t.Errorf("%s, %s: share %v denied, %q, %q", r.Workload, r.Limiter, *r.Denied, r.Verdict, r.Error)
		}
	}
	if results[4].Limiter != "test" || results[4].Workload != "flood" {
		t.Errorf("%+v", results[4])
	}
}

// What makes a result doubtful is said.
func TestRoundProblems(t *testing.T) {
	t.Parallel()
	outcome := func(empty int64, status map[int]int64) generated {
		none := load.NewHistogram().Export()
		return generated{SpinOutcome: load.SpinOutcome{Polls: 1000, Empty: empty, Elapsed: time.Second, Status: status, Latency: none, Service: none}}
	}
	broken := outcome(500, map[int]int64{200: 90, 500: 10})
	broken.Failed, broken.Failure = 3, "reset"
	for _, c := range []struct {
		rounds []generated
		status int
		want   string
	}{
		{[]generated{outcome(30, map[int]int64{200: 100})}, 200, ""},
		{[]generated{outcome(30, map[int]int64{429: 96, 200: 4})}, 429, ""},
		{[]generated{outcome(29, map[int]int64{200: 100}), outcome(31, map[int]int64{200: 100})}, 200, "void: the generator was the limit in 1 of 2 rounds"},
		{[]generated{broken}, 200, "10 answers 5xx; 3 requests failed (reset)"},
		{[]generated{outcome(500, map[int]int64{429: 90, 200: 10})}, 429, "10 of 100 answers are not 429"},
		{[]generated{outcome(500, map[int]int64{429: 10, 200: 90})}, 200, "10 of 100 answers are not 200"},
	} {
		var m round
		for _, g := range c.rounds {
			m.add(g)
		}
		res := m.result(report.Result{}, c.status)
		if res.Error != c.want {
			t.Errorf("%q, want %q", res.Error, c.want)
		}
		// The open loop that follows has the same troubles, and is behind.
		m.unsent = 7
		if m.latencies(&res); !strings.HasPrefix(res.Error, c.want) || !strings.HasSuffix(res.Error, "7 requests could not be sent in time") || strings.Count(res.Error, "open loop: ") != 1 {
			t.Errorf("with the open loop: %q", res.Error)
		}
	}
}

func TestTracersAreRead(t *testing.T) {
	t.Parallel()
	perf := "# started on Sun Nov 22\n\n144,,raw_syscalls:sys_enter,1214673,100.00,,\n"
	if n, ok := perfCount([]byte(perf)); !ok || n != 144 {
		t.Errorf("perf: %v, %v", n, ok)
	}
	for _, bad := range []string{"", "<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n"} {
		if n, ok := perfCount([]byte(bad)); ok {
			t.Errorf("%q: %v", bad, n)
		}
	}
	table := "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n" +
		" 40.00    0.000010           1        20         2 read\n100.00    0.000010           1        29         2 total\n"
	for _, text := range []string{table, strings.Replace(table, "29         2 total", "29           total", 1)} {
		if n, ok := straceCount([]byte(text)); !ok || n != 29 {
			t.Errorf("strace: %v, %v in %q", n, ok, text)
		}
	}
	if _, ok := straceCount(nil); ok {
		t.Error("strace: nothing is a count")
	}
}

// started is the test's own limiter, running.
func started(t *testing.T) *running {
	t.Helper()
	r, err := self(t).start(t.Context(), site{rule: oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 20}, dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.child.Stop)
	return r
}

// The generator is a process of its own; it takes the CPU time of the server over
// the time that it measures.
func TestGenerate(t *testing.T) {
	t.Parallel()
	r := started(t)
	g, err := generate(t.Context(), r, load.SpinConfig{Request: shape{}.request(), Conns: 4, Sources: 4, Requests: 200}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g.Total() < 200 || g.Status[429] != g.Total()-g.Status[200] || g.Status[200] > 80 || g.CPU <= 0 || g.Latency == nil || g.Polls < g.Empty {
		t.Errorf("%v, CPU %v", g.Status, g.CPU)
	}
	if _, err := generate(t.Context(), r, load.SpinConfig{Conns: 4}, nil); err == nil || !strings.Contains(err.Error(), "a request") {
		t.Errorf("without a request: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := generate(ctx, r, load.SpinConfig{Request: shape{}.request(), Conns: 1, Duration: time.Hour}, nil); err == nil {
		t.Error("cancelled: no error")
	}
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	o := Options{Idle: 200, Requests: 50, atRest: time.Second}.withDefaults()
	results, err := o.idle(t.Context(), []*running{started(t)}, cores{})
	if err != nil || len(results) != 1 || results[0].Keys != 200 || *results[0].ConnBytes < 500 || *results[0].ConnBytes > 1e6 {
		t.Errorf("%+v, %v", results, err)
	}
}

// The operator's requests are timed beside the flood, and do not count as part of it.
func TestOperator(t *testing.T) {
	t.Parallel()
	r, without := started(t), started(t)
	r.server.probe, r.admin = "/", started(t).target.Addr()
	results, err := Options{Duration: 500 * time.Millisecond}.withDefaults().operator(t.Context(), []*running{r, without}, cores{})
	if err != nil || len(results) != 1 {
		t.Fatalf("%+v, %v", results, err)
	}
	if res := results[0]; res.Requests < 1 || res.LatencyMicros["p99"] <= 0 || *res.PerSecond <= 0 {
		t.Errorf("%+v", res)
	}
}

// What perf counts is divided by the answers of the run that it counted, which is a
// closed loop whatever was measured before.
func TestSyscalls(t *testing.T) {
	r, dir := started(t), t.TempDir()
	const perf = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do [ \"$1\" != -o ] || out=$2; shift; done\nshift\n" +
		"echo 60000,,raw_syscalls:sys_enter,1,100.00,, >\"$out\"\nexec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "perf"), []byte(perf), 0o700); err != nil { // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	var res report.Result
	c := load.SpinConfig{Request: shape{}.request(), Conns: 4, Rate: 1, Duration: time.Hour}
	if err := syscalls(t.Context(), r, c, nil, &res); err != nil {
		t.Fatal(err)
	}
	if *res.Syscalls < 2.9 || *res.Syscalls > 3 || res.Verdict != "" {
		t.Errorf("%v system calls for each of 20,000 requests and a few, want 3; %q", *res.Syscalls, res.Verdict)
	}
}

// Without a tracer the error says what to install.
func TestSyscallsWithoutTracer(t *testing.T) {
	r := started(t)
	t.Setenv("PATH", t.TempDir())
	err := syscalls(t.Context(), r, load.SpinConfig{Request: shape{}.request(), Conns: 1}, nil, new(report.Result))
	if err == nil || !strings.Contains(err.Error(), "strace") {
		t.Errorf("error %v", err)
	}
}
