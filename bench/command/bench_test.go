package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// TestMain lets the test binary be the program, and its measuring processes.
func TestMain(m *testing.M) {
	if os.Getenv("BENCH_TEST") == "main" {
		Main("bench", nil)
	}
	os.Exit(m.Run())
}

// bench is the program, to be started.
func bench(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BENCH_TEST=main")
	return cmd
}

// command runs the program to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := bench(t.Context(), args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func decodeReport(t *testing.T, text string) report.Report {
	t.Helper()
	var r report.Report
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("not a report: %v\n%s", err, text)
	}
	return r
}

func TestBenchHTTP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	page, out := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.json")
	code, stdout, stderr := command(t, "http", server.URL, "--rate=100", "--duration=300ms", "--clients=2",
		"-o", "json", "--out", out, "--html", page)
	if code != 0 || stdout != "" || stderr != "" {
		t.Fatalf("exit %d, stdout %q, stderr %q: want 0 and silence in a pipe", code, stdout, stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	r := decodeReport(t, string(text))
	if r.Environment.Cores < 1 || r.Environment.Go == "" || len(r.Results) != 1 || r.Results[0].Requests != 30 {
		t.Errorf("report %+v", r)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), server.URL) {
		t.Errorf("page of %d bytes, %v", len(html), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	code, stdout, stderr = command(t, "report", out, out)
	if code != 0 || strings.Count(stdout, server.URL) != 1 {
		t.Errorf("merged: exit %d, %s%s", code, stdout, stderr)
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	nonsense := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(nonsense.Close)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cluster", "--keys", "1.5"}, cli.ExitUsage, "1.5"},
		{[]string{"cluster", "--max-bytes", "100"}, cli.ExitUsage, "MaxBytes 100"},
		{[]string{"http", "http://127.0.0.1:1/"}, cli.ExitFailure, "127.0.0.1:1"},
		{[]string{"http", nonsense.URL}, cli.ExitFailure, "404"},
		{[]string{"http", "http://" + banner(t)}, cli.ExitFailure, "220 mail"},
		{[]string{"http", "--nginx", "/nope"}, cli.ExitFailure, `"/nope"`},
		{[]string{"http", "--server", "haproxy", "--haproxy", "./nope"}, cli.ExitFailure, `"./nope"`},
		{[]string{"accuracy", "--redis", "redis://127.0.0.1:1/0"}, cli.ExitFailure, "127.0.0.1:1"},
		{[]string{"memory", "--cap=-1"}, cli.ExitUsage, "--cap -1"},
		{[]string{"http", "--server", "apache"}, cli.ExitUsage, "apache"},
		{[]string{"http", "--server", "fastlimit", "--command", "x=no-such-limiter {{.Addr}}"}, cli.ExitFailure, "no-such-limiter"},
		{[]string{"http", "--rate=0"}, cli.ExitUsage, "rate 0"},
		{[]string{"proxy", "--conns=1"}, cli.ExitUsage, "--conns 1"},
		{[]string{"proxy", "--headers=many"}, cli.ExitUsage, "many"},
		{[]string{"proxy", "--binary", "./nope"}, cli.ExitFailure, "./nope"},
		{[]string{"redis", "--server", "no-such-redis"}, cli.ExitFailure, "no-such-redis"},
		{[]string{"redis", "--faults", "--timeout=0s"}, cli.ExitUsage, "--timeout"},
		{[]string{"accuracy", "--workload", "nope"}, cli.ExitUsage, "nope"},
		{[]string{"memory", "--keys", "1.5"}, cli.ExitUsage, "1.5"},
		{[]string{"local", "--html", "/no/such/folder/x.html"}, cli.ExitFailure, "/no/such/folder"},
		{[]string{"local", "--out", "/dev/null"}, cli.ExitFailure, "regular"},
		{[]string{"local", "--out", ""}, cli.ExitUsage, "--out is empty"},
		{[]string{"local", "--rounds=1", "--rounds=2"}, cli.ExitUsage, "--rounds is given twice"},
		{[]string{"http", "--binary", "./nope"}, cli.ExitFailure, "./nope"},
		{[]string{"sever"}, cli.ExitUsage, "sever"},
		{[]string{"report", os.Args[0]}, cli.ExitFailure, "not a report"},
	} {
		start := time.Now()
		code, stdout, stderr := command(t, c.args...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d after %v, stdout %q, stderr %q: want %d and %q", c.args, code, time.Since(start), stdout, stderr, c.code, c.want)
		}
	}
}

// banner listens and answers what is not HTTP.
func banner(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_, _ = io.WriteString(conn, "220 mail.example ready for whatever you have to say\r\n\r\n")
			conn.Close()
		}
	}()
	return ln.Addr().String()
}

// One flood over HTTP: Redis is asked about one client, and counts as many
// buckets as the store.
func TestBenchRedisHTTP(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, "redis", "--http", "--duration=500ms", "-o", "json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	r := decodeReport(t, stdout)
	if len(r.Results) != 4 || r.Environment.Versions["Redis"] == "" {
		t.Fatalf("%d results, versions %v: want 3 stages, their sum, and the version of Redis", len(r.Results), r.Environment.Versions)
	}
	for _, res := range r.Results {
		if *res.FalseDenials != 0 || *res.Denied == 0 {
			t.Errorf("%s: %d false denials, share denied %v", res.Workload, *res.FalseDenials, *res.Denied)
		}
		// A take for each unit that leaks and for the burst, at most, however
		// many requests there are. Redis has not counted those that are still on
		// their way to it.
		if takes := *res.StorePerRequest * float64(res.Requests); takes == 0 || takes > 3*(200+100*2) || *res.StoreReads < *res.StorePerRequest/2 {
			t.Errorf("%s: %v takes for %d requests, %v and %v for each", res.Workload, takes, res.Requests, *res.StorePerRequest, *res.StoreReads)
		}
	}
}

// Ctrl-C keeps what was measured.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(server.Close)
	var stdout, stderr strings.Builder
	cmd := bench(t.Context(), "http", server.URL, "--rate=500", "--duration=1h", "-o", "json")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first is the probe
		<-asked
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		t.Errorf("exit %d, want %d; stderr %q", code, cli.ExitInterrupted, stderr.String())
	}
	if r := decodeReport(t, stdout.String()); len(r.Results) != 1 || r.Results[0].Requests == 0 {
		t.Errorf("results %+v, want what was measured", r.Results)
	}
}

// Measuring processes are the program again, and see its flags.
func TestBenchLocal(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, "local", "--workload=hot-denied", "--cores=1", "--rounds=1", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	r := decodeReport(t, stdout)
	for _, res := range r.Results {
		if res.Error != "" || res.NsPerOp == nil {
			t.Errorf("%s: %+v", res.Limiter, res)
		}
	}
	if len(r.Results) != 6 || r.Environment.Commit == "" { // two clocks, three limiters and none
		t.Errorf("%d results, commit %q", len(r.Results), r.Environment.Commit)
	}
}

// Without a redis-server the algorithms are measured in memory, and that is said.
func TestBenchAlgorithmsWithoutRedis(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, "algorithms", "--rounds=1", "--server=no-such-redis", "-o", "json")
	if code != 0 || !strings.Contains(stderr, "left out: limiters on Redis: ") || !strings.Contains(stderr, "no-such-redis") {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	seen := map[string]int{}
	for _, r := range decodeReport(t, stdout).Results {
		seen[r.Workload]++
		if r.Group != "algorithms" || r.Error != "" || r.NsPerOp == nil {
			t.Errorf("%+v", r)
		}
	}
	// Two for each algorithm, the reference and none.
	if want := 2*int(bucket.NumAlgorithms) + 2; seen["hot-allowed"] != want || seen["hot-denied"] != want {
		t.Errorf("%v, want %d each", seen, want)
	}
}
