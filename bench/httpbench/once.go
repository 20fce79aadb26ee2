package httpbench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
)

// atRest is how long connections are idle before their memory is measured: servers give some of
// it back by then.
const atRest = 10 * time.Second

// idle measures the memory of connections that have had one answer each and are
// kept: how much the server has grown by a while later.
func (o Options) idle(ctx context.Context, all []*running, on cores) (results []report.Result, err error) {
	s := shape{conns: o.Clients, head: "host"}
	warm := s.load(s.conns)
	warm.Requests = int64(o.Requests)
	for _, r := range all {
		if _, err := generate(ctx, r, warm, on.load); err != nil {
			return results, err
		}
		before, err := r.child.RSS()
		if err != nil {
			return results, err
		}
		// The connections are open only while Open is called, so that is when to look.
		var after int64
		var rssErr error
		s.conns = o.Idle
		open := s.load(o.Idle)
		open.Addr = r.target.Addr()
		open.Open = func() {
			time.Sleep(cmp.Or(o.atRest, atRest))
			after, rssErr = r.child.RSS()
		}
		if _, err := load.Spin(ctx, open); err != nil || rssErr != nil {
			return results, fmt.Errorf("%s: %w %w", r.server.Name, err, rssErr)
		}
		res := r.result("idle connections")
		res.Keys, res.RSSBytes = int64(o.Idle), &after
		res.ConnBytes = new(float64(after-before) / float64(o.Idle))
		results = append(results, res)
	}
	return results, nil
}

// operator measures how long the address for operators takes to answer while one
// client floods, as fast as the server answers it.
func (o Options) operator(ctx context.Context, all []*running, on cores) (results []report.Result, err error) {
	s := shape{conns: o.Clients, head: "host"}
	for _, r := range all {
		if r.server.probe == "" {
			continue
		}
		c := s.load(1)
		c.Duration = o.Duration
		c.Probe = &load.SpinProbe{Addr: r.admin, Request: []byte("GET " + r.server.probe + " HTTP/1.1\r\nHost: admin\r\n\r\n"), Rate: 200}
		g, err := generate(ctx, r, c, on.load)
		if err != nil {
			return results, err
		}
		var m round
		m.add(g)
		res := m.result(r.result("operator during a flood"), http.StatusTooManyRequests)
		latency := hdrhistogram.Import(g.Probe)
		res.LatencyMicros, res.Requests = report.Latencies(latency), latency.TotalCount()
		results = append(results, res)
	}
	return results, nil
}

// traced is the number of requests over which system calls are counted.
const traced = 20_000

// syscalls counts the system calls of the server for each request, in a run that is
// not timed: with perf, which needs the right to read tracepoints, else with strace,
// which makes the server many times slower, so that it finds more to do whenever it
// looks; the result says so.
func syscalls(ctx context.Context, r *running, c load.SpinConfig, on []int, res *report.Result) error {
	c.Requests, c.Rate, c.Duration = traced, 0, 0
	dir, err := os.MkdirTemp("", "fastlimit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "calls")
	pids := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.child.PIDs()), " ", ","), "[]")
	// perf counts what these processes, and the threads that they start, call until the
	// generator ends. So do all its answers, warm-up included.
	g, err := generate(ctx, r, c, on, "perf", "stat", "-x,", "-o", out, "-e", "raw_syscalls:sys_enter", "-p", pids, "--")
	text, _ := os.ReadFile(out) // empty after an error
	calls, ok := perfCount(text)
	if err != nil || !ok {
		if g, calls, err = straced(ctx, r, c, on, out, pids); err != nil {
			return err
		}
		res.Verdict = join(res.Verdict, "system calls counted by strace")
	}
	res.Syscalls = new(calls / float64(g.Ever))
	return nil
}

// perfCount finds the count in what perf stat -x, writes.
func perfCount(text []byte) (n float64, ok bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Split(string(line), ",")
		if len(fields) > 2 && strings.HasPrefix(fields[2], "raw_syscalls") {
			n, err := strconv.ParseFloat(fields[0], 64)
			return n, err == nil
		}
	}
	return 0, false
}

// straced runs the load while strace counts.
func straced(ctx context.Context, r *running, c load.SpinConfig, on []int, out, pids string) (g generated, calls float64, err error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return g, 0, fmt.Errorf("bench: --syscalls: perf cannot count them here (it needs root, or kernel.perf_event_paranoid -1), and there is no strace: %w", err)
	}
	tracer, err := proc.Start(ctx, proc.Config{Path: path, Args: []string{"-f", "-c", "-o", out, "-p", pids}})
	if err != nil {
		return g, 0, err
	}
	defer tracer.Stop()
	for start := time.Now(); !strings.Contains(tracer.Output(), "attached"); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			return g, 0, fmt.Errorf("bench: --syscalls: strace does not attach to %s: %s", r.server.Name, tracer.Output())
		}
	}
	if g, err = generate(ctx, r, c, on); err != nil {
		return g, 0, err
	}
	tracer.Stop() // it writes its table
	text, err := os.ReadFile(out)
	if err != nil {
		return g, 0, err
	}
	calls, ok := straceCount(text)
	if !ok {
		return g, 0, fmt.Errorf("bench: --syscalls: strace printed no total: %.200s", text)
	}
	return g, calls, nil
}

// straceCount finds the number of calls in the last line of what strace -c writes:
// share, seconds, µs/call, calls, errors if any, "total".
func straceCount(text []byte) (n float64, ok bool) {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) > 4 && fields[len(fields)-1] == "total" {
			n, err := strconv.ParseFloat(fields[3], 64)
			return n, err == nil
		}
	}
	return 0, false
}
