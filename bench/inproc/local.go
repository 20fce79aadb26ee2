package inproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/limit"
)

// LocalOptions configure [Local]. Zero fields mean defaults.
type LocalOptions struct {
	Options

	Workloads []string      `name:"workload" placeholder:"NAME" help:"zipf-1.1, distinct, hot-denied, hot-allowed. Default: all."`
	Cores     []int         `placeholder:"N" help:"Numbers of cores to decide on. Default: 1, 2, 4 and so on."`
	Rounds    int           `default:"11" help:"Turns of each limiter."`
	Round     time.Duration `kong:"-"` // about how long a turn lasts; 0 means 20 ms
	ChildArgs []string      `kong:"-"` // of measuring processes, beside this program's own
}

// withDefaults adds the limiter that does nothing: what the harness itself costs is
// part of every figure, and must be seen beside them.
func (o LocalOptions) withDefaults() LocalOptions {
	o.Options = o.Options.withDefaults()
	o.Contenders = append(slices.Clone(o.Contenders), noLimiter())
	if o.Workloads == nil {
		o.Workloads = speedWorkloads
	}
	if o.Cores == nil {
		for n := 1; n < runtime.NumCPU(); n *= 2 {
			o.Cores = append(o.Cores, n)
		}
		o.Cores = append(o.Cores, runtime.NumCPU())
	}
	o.Round = cmp.Or(o.Round, 20*time.Millisecond)
	return defaults.Of(o)
}

// Local measures how fast limiters decide within a process. Each lives in a
// process of its own; they take turns in short rounds, so that a noisy machine
// is noisy to all, and the figures are medians over the rounds. CPU time per
// decision is given beside wall time: it leaves out what other programs took. A
// limiter is told the time unless it reads the clock itself; what a reading costs is a
// result of its own. When ctx ends it returns what it has, and the cause.
func Local(ctx context.Context, o LocalOptions) ([]report.Result, error) {
	o = o.withDefaults()
	for _, w := range o.Workloads {
		if !slices.Contains(speedWorkloads, w) {
			return nil, fmt.Errorf("bench: no workload %q: want one of %q", w, speedWorkloads)
		}
	}
	if bad := slices.IndexFunc(o.Cores, func(n int) bool { return n < 1 || n > runtime.NumCPU() }); bad >= 0 {
		return nil, fmt.Errorf("bench: %d cores: this machine has %d", o.Cores[bad], runtime.NumCPU())
	}
	results := clockResults(o.Rounds)
	total, done := len(o.Workloads)*len(o.Cores)*o.Rounds, 0
	for _, w := range o.Workloads {
		for _, cores := range o.Cores {
			o.Progress.Tell(done, total, "%s on %d cores: warming up", w, cores)
			turns, err := startTurns(ctx, o, w, cores)
			for range o.Rounds {
				if err != nil || ctx.Err() != nil {
					break
				}
				o.Progress.Tell(done, total, "%s on %d cores", w, cores)
				takeTurns(turns, done)
				done++
			}
			results = append(results, finish(turns, o, w, cores)...)
			if ctx.Err() != nil {
				return results, context.Cause(ctx)
			} else if err != nil {
				return results, err
			}
		}
	}
	o.Progress.Tell(total, total, "done")
	return results, nil
}

// turn is one limiter's part in a measurement.
type turn struct {
	contender Contender
	child     *child  // nil if it did not start
	rounds    []round // so far
	err       error   // the first one; from then on it sits out
}

// startTurns starts all children and waits until they are ready: one after the
// other, for they warm up.
func startTurns(ctx context.Context, o LocalOptions, workload string, cores int) ([]*turn, error) {
	var turns []*turn
	for _, c := range o.Contenders {
		t := &turn{contender: c}
		turns = append(turns, t)
		t.child, t.err = startChild(ctx, job{
			Contender: c.Name, Rule: speedRule(workload, o.Rule),
			Speed: &speedJob{Workload: workload, Cores: cores, Round: o.Round, Seed: o.Seed},
		}, o.ChildArgs...)
		if t.err != nil {
			return turns, t.err // the others will not start either
		}
		_, t.err = t.child.next()
	}
	return turns, nil
}

// takeTurns lets each limiter measure one round. A different one begins each time,
// so that none always follows the same neighbour.
func takeTurns(turns []*turn, first int) {
	for i := range turns {
		t := turns[(first+i)%len(turns)]
		if t.err != nil {
			continue
		}
		if _, t.err = t.child.in.Write([]byte("\n")); t.err != nil {
			continue
		}
		var r answer
		if r, t.err = t.child.next(); t.err == nil {
			t.rounds = append(t.rounds, *r.Round)
		}
	}
}

// finish stops the children and makes results of their rounds.
func finish(turns []*turn, o LocalOptions, workload string, cores int) []report.Result {
	var results []report.Result
	for _, t := range turns {
		if t.child != nil {
			t.child.stop()
		}
		r := report.Result{
			Group: "local", Workload: workload, Limiter: t.contender.Name, Setup: t.contender.Setup,
			Cores: cores,
		}
		if workload == "zipf-1.1" {
			r.Keys = speedKeys
		}
		switch {
		case len(t.rounds) > 0:
			fillSpeed(&r, t.rounds)
		case errors.Is(t.err, context.Canceled) || t.err == nil:
			continue // interrupted before its first round
		default:
			r.Error = t.err.Error()
		}
		results = append(results, r)
	}
	return results
}

// fillSpeed sums rounds up: medians of times, since a round that was interrupted is
// an outlier, and the mean of allocations, which are exact.
func fillSpeed(r *report.Result, rounds []round) {
	var ns, cpu []float64
	allocs := uint64(0)
	for _, x := range rounds {
		ns = append(ns, x.nsPerOp())
		cpu = append(cpu, x.CPU.Seconds()*1e6/float64(x.Ops))
		allocs += x.Allocs
		r.Requests += x.Ops
	}
	r.NsPerOp = new(report.Median(ns))
	r.PerSecond = new(1e9 / *r.NsPerOp)
	if m := report.Median(cpu); m > 0 {
		r.CPUMicros = &m
	}
	// Rounded to 0.01: the harness itself allocates a few dozen times a round.
	r.AllocsPerOp = new(float64(int64(100*float64(allocs)/float64(r.Requests)+0.5)) / 100)
}

// clockResults measures what reading the time costs, for limiters that are not
// told it.
func clockResults(rounds int) []report.Result {
	lim, err := fastlimit.New(fastlimit.Config{Memory: limit.MinMemory, Rules: []fastlimit.RuleConfig{
		{Name: "clock", Rate: fastlimit.Rate{N: 1, Per: time.Second}},
	}})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	const ops = 20_000
	measure := func(name, setup string, read func()) report.Result {
		r := report.Result{Group: "local", Workload: "clock", Limiter: name, Setup: setup, Cores: 1}
		all := make([]round, rounds)
		for i := range all {
			begin := time.Now()
			for range ops {
				read()
			}
			all[i] = round{Ops: ops, Took: time.Since(begin)}
		}
		fillSpeed(&r, all)
		return r
	}
	return []report.Result{
		measure("fastlimit", "Limiter.Now: monotonic time only", func() { lim.Now() }),
		measure("time.Now", "wall clock and monotonic time", func() { _ = time.Now() }),
	}
}
