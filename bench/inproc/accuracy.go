package inproc

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/workload"
)

// Options are common to all in-process measurements. The zero value measures
// [DefaultContenders] at the default rule.
type Options struct {
	Contenders []Contender     `kong:"-"`
	Rule       oracle.Rule     `kong:"-"`
	Seed       uint64          `kong:"-"`
	Progress   report.Progress `kong:"-"`
}

func (o Options) withDefaults() Options {
	if o.Contenders == nil {
		o.Contenders = DefaultContenders()
	}
	o.Rule = o.Rule.WithDefaults()
	return o
}

// AccuracyOptions configure [Accuracy].
type AccuracyOptions struct {
	Options

	Workloads []*workload.Workload `kong:"-"` // nil: all
	Requests  int                  `default:"300000" help:"Requests of each workload, about."`
	Duration  time.Duration        `default:"6s" help:"Time that each workload spans. It is simulated where a limiter can be told the time."`
}

// Accuracy runs each workload through each limiter, one decision at a time, and
// judges every decision by an exact oracle: false denials, excess, share denied
// and share escalated. Limiters that read the clock themselves are run in real
// time, side by side, those that cannot keep up on as many requests as they
// manage. When ctx ends it returns what it has, and the cause. A limiter that
// fails has its error in its result.
func Accuracy(ctx context.Context, o AccuracyOptions) ([]report.Result, error) {
	o = defaults.Of(o)
	o.Options = o.Options.withDefaults()
	if o.Workloads == nil {
		o.Workloads = workload.All()
	}
	var results []report.Result
	total := len(o.Workloads) * len(o.Contenders)
	for _, w := range o.Workloads {
		traffic := w.Traffic(workload.Params{Seed: o.Seed, Rule: o.Rule, Requests: o.Requests, Duration: o.Duration})
		done := len(results)
		trials := make([]*trial, len(o.Contenders))
		for i, c := range o.Contenders {
			trials[i] = &trial{contender: c, result: report.Result{
				Group: "accuracy", Workload: w.Name, Limiter: c.Name, Setup: c.Setup,
				Keys: int64(traffic.Clients), Scale: traffic.Scale,
			}}
		}
		for _, together := range sideBySide(trials) {
			o.Progress.Tell(done, total, "%s: %s", w.Name, names(together))
			if judge(ctx, together, o.Rule, traffic); ctx.Err() != nil {
				return append(results, finished(trials)...), context.Cause(ctx)
			}
			done += len(together)
		}
		results = append(results, finished(trials)...)
	}
	o.Progress.Tell(total, total, "done")
	return results, nil
}

// trial is one limiter under one workload.
type trial struct {
	contender Contender
	result    report.Result
	done      bool

	limiter Limiter // nil before its start and when it has failed
	oracle  *oracle.Oracle
}

// names are those that run at the same time, for the progress bar.
func names(trials []*trial) string {
	var all []string
	for _, t := range trials {
		all = append(all, t.contender.Name)
	}
	return strings.Join(all, ", ")
}

// finished returns the complete results, in the order of the contenders.
func finished(trials []*trial) (all []report.Result) {
	for _, t := range trials {
		if t.done {
			all = append(all, t.result)
		}
	}
	return all
}

// sideBySide groups the limiters that share one stream of requests. A limiter
// that is told the time runs alone, as fast as it can. Those that read the clock
// need as long as the stream lasts, so they share one, except remote ones, which
// would hold up the others.
func sideBySide(trials []*trial) (groups [][]*trial) {
	var together []*trial
	for _, t := range trials {
		if t.contender.OwnClock && !t.contender.Remote {
			together = append(together, t)
		} else {
			groups = append(groups, []*trial{t})
		}
	}
	if len(together) > 0 {
		groups = append(groups, together)
	}
	return groups
}

// judge runs limiters through one workload: one, or several in real time.
func judge(ctx context.Context, trials []*trial, rule oracle.Rule, traffic workload.Traffic) {
	ready := false
	for _, t := range trials {
		t.end(t.start(rule, traffic))
		t.done, ready = t.limiter == nil, ready || t.limiter != nil
	}
	if !ready {
		return
	}
	begin := time.Now()
	var elapsed func() time.Duration
	if trials[0].contender.OwnClock {
		elapsed = func() time.Duration { return time.Since(begin) }
	}
	n := 0
	for e := range traffic.Events() {
		if elapsed != nil {
			if e.At = waitUntil(begin, e.At); e.At >= traffic.Duration() {
				break // too slow for the stream: the rest is not judged
			}
		}
		for i, t := range trials {
			if i > 0 {
				e.At = elapsed()
			}
			if t.limiter != nil {
				observe(t.oracle, t.limiter, e.Client, e.Addr, e.At, elapsed)
			}
		}
		if n++; n%(1<<12) == 0 && ctx.Err() != nil {
			break
		}
	}
	for _, t := range trials {
		if t.limiter == nil {
			continue
		}
		if t.done = ctx.Err() == nil; t.done {
			fill(&t.result, t.oracle.Verdict(), t.limiter)
		}
		t.end(errors.Join(failure(t.limiter), closeLimiter(t.limiter)))
	}
}

func (t *trial) start(rule oracle.Rule, traffic workload.Traffic) (err error) {
	if t.oracle, err = oracle.New(rule, traffic.Clients, 1<<32); err != nil {
		return err
	}
	t.limiter, err = t.contender.New(rule)
	if err != nil {
		t.limiter = nil
	}
	return err
}

// end records why a limiter has no figures, or doubtful ones.
func (t *trial) end(err error) {
	if err != nil {
		t.result.Error = err.Error()
	}
}

// waitUntil waits until at has passed since begin and returns the time since begin:
// more than at if the limiter cannot keep up. It sleeps for most of the wait and
// spins for the rest, since a sleep ends up to a millisecond late.
func waitUntil(begin time.Time, at time.Duration) time.Duration {
	const coarse = 2 * time.Millisecond // longer than a sleep is late
	now := time.Since(begin)
	if ahead := at - now; ahead > coarse {
		time.Sleep(ahead - coarse)
	}
	for now < at {
		now = time.Since(begin)
	}
	return now
}

// fill has the verdict, and what some limiters tell about themselves.
func fill(r *report.Result, v oracle.Verdict, l Limiter) {
	requests := float64(max(1, v.Requests))
	r.Requests = v.Requests
	r.FalseDenials, r.ConformingDenied = &v.FalseDenials, &v.ConformingDenied
	r.Excess = &v.Excess
	r.Denied = new(float64(v.Denied) / requests)
	r.DeniedExactly = new(float64(v.DeniedExactly) / requests)
	if e, ok := l.(Escalator); ok {
		r.Escalated = new(float64(e.Escalated()) / requests)
	}
	if a, ok := l.(Asker); ok {
		r.StorePerRequest = new(float64(a.Asked()) / requests)
	}
}

// failure is the first error behind the decisions of a limiter, if it tells.
func failure(l Limiter) error {
	if f, ok := l.(Failer); ok {
		return f.Err()
	}
	return nil
}

// closeLimiter ends a limiter that holds more than memory.
func closeLimiter(l Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// observe lets l decide at the given time and has o judge it. Where l reads the
// clock itself, elapsed reads it too, and the decision was made between the two
// readings; else elapsed is nil.
func observe(o *oracle.Oracle, l Limiter, client uint32, addr netip.Addr, at time.Duration, elapsed func() time.Duration) {
	allowed, until := l.Allow(addr, at), at
	if allowed && elapsed != nil {
		until = elapsed() // of a denial only the earlier end matters
	}
	o.JudgeWithin(client, at, until, allowed)
}
