//go:build linux

package banbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// spent is what serving has taken.
type spent struct {
	processes, receiver time.Duration // CPU time
	elapsed             time.Duration
	polite              netns.Counts
}

// all is the CPU time of a second.
func (s spent) all() float64 { return (s.processes + s.receiver).Seconds() / s.elapsed.Seconds() }

// during measures a time, which begins now.
func (r *running) during(ctx context.Context, polite *netns.Running, d time.Duration) (s spent, err error) {
	processes, receiver, err1 := r.cpu()
	before, begin := polite.Counts(), time.Now()
	if err := errors.Join(err1, sleep(ctx, d)); err != nil {
		return s, err
	}
	s.elapsed, s.polite = time.Since(begin), polite.Counts().Since(before)
	s.processes, s.receiver, err = r.cpu()
	s.processes -= processes
	s.receiver -= receiver
	return s, err
}

// cpu is the time that the processes and the receiving thread have used so far.
func (r *running) cpu() (processes, receiver time.Duration, err error) {
	for _, c := range r.children {
		for _, pid := range c.PIDs() {
			own, err := proc.CPU(pid)
			if err != nil {
				continue // a command that has ended: its parent counts it from now on
			}
			processes += own
			processes += ended(pid)
		}
	}
	receiver, err = proc.CPU(r.receiver)
	return processes, receiver, err
}

// ended is the CPU time of a process's children that have ended, such as the commands
// that fail2ban runs.
func ended(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // it has ended itself
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	var ticks int64
	for _, at := range []int{13, 14} { // cutime and cstime, counted from the state
		n, _ := strconv.ParseInt(string(f[at]), 10, 64) // digits
		ticks += n
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all machines that Go runs on
	return time.Duration(ticks) * tick
}

// result is the row of a report.
func (o Options) result(at *site, sources int, idle, busy spent, flood netns.Counts, shut time.Duration) report.Result {
	workload := fmt.Sprintf("%d sources, a connection for each request", sources)
	if sources == 1 {
		workload = "1 source, a connection for each request"
	}
	if o.Lasting {
		workload = fmt.Sprintf("%d sources, lasting connections", sources)
		if sources == 1 {
			workload = "1 source, lasting connections"
		}
	}
	res := report.Result{Group: "bans", Workload: workload, Limiter: at.name, Setup: at.setup, Cores: 1, Requests: flood.Sent}
	seconds := busy.elapsed.Seconds()
	res.FloodPerSecond = new(float64(flood.Sent) / seconds)
	res.Denied = new(float64(flood.Denied) / float64(max(1, flood.Sent)))
	// What the polite clients take is there without a flood too.
	extra := max(0, busy.all()-idle.all()) * seconds
	res.CPUMicros = new(extra * 1e6 / float64(max(1, flood.Sent)))
	if extra > 0 {
		res.Survived = new(float64(flood.Sent) / extra)
	}
	res.ProcessCPU, res.ReceiverCPU, res.IdleCPU = new(busy.processes.Seconds()/seconds), new(busy.receiver.Seconds()/seconds), new(idle.all())
	if shut > 0 {
		res.QuietMillis = new(float64(shut.Milliseconds()))
	}
	res.LatencyMicros = map[string]float64{}
	for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1} {
		res.LatencyMicros[name] = float64(busy.polite.Quantile(q).Microseconds())
	}
	res.Verdict = fmt.Sprintf("polite clients: %d of %d served, p99 %d µs when idle", busy.polite.Served, busy.polite.Sent, idle.polite.Quantile(0.99).Microseconds())
	if at.shuts && shut == 0 {
		res.Verdict += fmt.Sprintf("; still answered after %v", o.Quiet)
	}
	return res
}
