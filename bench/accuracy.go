package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Options are common to all in-process measurements. The zero value measures
// [DefaultContenders] at the default rule.
type Options struct {
	Contenders []Contender
	Rule       Rule
	Seed       uint64
	Progress   Progress
}

// Progress is told what is done and what comes next. It may be nil.
type Progress func(done, total int, what string)

func (p Progress) report(done, total int, format string, args ...any) {
	if p != nil {
		p(done, total, fmt.Sprintf(format, args...))
	}
}

func (o Options) withDefaults() Options {
	if o.Contenders == nil {
		o.Contenders = DefaultContenders()
	}
	o.Rule = o.Rule.withDefaults()
	return o
}

// AccuracyOptions configure [Accuracy].
type AccuracyOptions struct {
	Options
	Workloads []*Workload   // nil: all
	Requests  int           // of each; see [Params]
	Duration  time.Duration // of each; see [Params]
}

// Accuracy runs each workload through each limiter, one decision at a time, and
// judges every decision by an exact oracle: false denials, excess, share denied
// and share escalated. Limiters that read the clock themselves are run in real
// time, those that cannot keep up on as many requests as they manage. When ctx ends it returns what it has, and the cause. A limiter that
// fails has its error in its result.
func Accuracy(ctx context.Context, o AccuracyOptions) ([]Result, error) {
	o.Options = o.Options.withDefaults()
	if o.Workloads == nil {
		o.Workloads = Workloads()
	}
	var results []Result
	total := len(o.Workloads) * len(o.Contenders)
	for _, w := range o.Workloads {
		traffic := w.Traffic(Params{Seed: o.Seed, Rule: o.Rule, Requests: o.Requests, Duration: o.Duration})
		for _, c := range o.Contenders {
			o.Progress.report(len(results), total, "%s: %s", w.Name, c.Name)
			r := Result{
				Group: "accuracy", Workload: w.Name, Limiter: c.Name, Setup: c.Setup,
				Keys: int64(traffic.Clients), Scale: traffic.Scale,
			}
			if err := judge(ctx, c, o.Rule, traffic, &r); ctx.Err() != nil {
				return results, context.Cause(ctx)
			} else if err != nil {
				r.Error = err.Error()
			}
			results = append(results, r)
		}
	}
	o.Progress.report(total, total, "done")
	return results, nil
}

// judge runs one limiter through one workload.
func judge(ctx context.Context, c Contender, rule Rule, t Traffic, r *Result) (err error) {
	l, err := c.New(rule)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLimiter(l)) }()
	oracle, err := NewOracle(rule, t.Clients, 1<<32)
	if err != nil {
		return err
	}
	begin := time.Now()
	var elapsed func() time.Duration
	if c.OwnClock {
		elapsed = func() time.Duration { return time.Since(begin) }
	}
	for e := range t.Events() {
		if c.OwnClock {
			if e.At = waitUntil(begin, e.At); e.At >= t.params.Duration {
				break // it could not keep up: the rest is left out
			}
		}
		oracle.Observe(l, e.Client, e.Addr, e.At, elapsed)
		if oracle.verdict.Requests%(1<<12) == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	fill(r, oracle.Verdict(), l)
	return failure(l)
}

// waitUntil waits until at has passed since begin and returns how long it has
// been by now: more if the limiter cannot keep up.
func waitUntil(begin time.Time, at time.Duration) time.Duration {
	const coarse = 2 * time.Millisecond // what a sleep may be late
	now := time.Since(begin)
	if ahead := at - now; ahead > coarse {
		time.Sleep(ahead - coarse)
	}
	for now < at {
		now = time.Since(begin)
	}
	return now
}

func fill(r *Result, v Verdict, l Limiter) {
	requests := float64(max(1, v.Requests))
	r.Requests = v.Requests
	r.FalseDenials, r.ConformingDenied = &v.FalseDenials, &v.ConformingDenied
	r.Excess = &v.Excess
	r.Denied = new(float64(v.Denied) / requests)
	r.DeniedExactly = new(float64(v.DeniedExactly) / requests)
	if e, ok := l.(Escalator); ok {
		r.Escalated = new(float64(e.Escalated()) / requests)
	}
}

// failure is the error that a limiter took back silently.
func failure(l Limiter) error {
	if f, ok := l.(Failer); ok {
		return f.Err()
	}
	return nil
}

func closeLimiter(l Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
