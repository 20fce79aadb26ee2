package bench

import (
	"context"
	"fmt"
)

// MemoryOptions configure [Memory].
type MemoryOptions struct {
	Options
	// Keys are the sizes of the floods, up to 4·10^9 - 1. nil means 10^6 and
	// 10^7.
	Keys []int64
	// Cap is the resident memory in bytes at which a limiter is stopped and
	// reported as growing. 0 means 8 GiB.
	Cap int64
}

const defaultMemoryCap = 8 << 30

// Memory sends floods of distinct clients, each seen once, through limiters in
// processes of their own, with one heavy hitter hidden in the flood: steady,
// and in pulses. It reports resident memory at the end and its growth since
// warm-up, and how much of the hitter was admitted, to what its limit admits:
// a limiter that forgets it under the flood admits more. When ctx ends it
// returns what it has, and the cause.
func Memory(ctx context.Context, o MemoryOptions) ([]Result, error) {
	o.Options = o.Options.withDefaults()
	if o.Keys == nil {
		o.Keys = []int64{1e6, 1e7}
	}
	if o.Cap == 0 {
		o.Cap = defaultMemoryCap
	}
	for _, n := range o.Keys {
		if n < 10 || n >= hitterID {
			return nil, fmt.Errorf("bench: a flood of %d keys: want 10 to %d", n, int64(hitterID-1))
		}
	}
	if _, err := residentBytes(); err != nil {
		return nil, err
	}
	var results []Result
	total := 2 * len(o.Keys) * len(o.Contenders)
	for _, keys := range o.Keys {
		for _, pulses := range []bool{false, true} {
			for _, c := range o.Contenders {
				r := Result{Group: "memory", Workload: floodName(pulses), Limiter: c.Name, Setup: c.Setup, Keys: keys, Cores: 1}
				tell := func(part float64) {
					o.Progress.report(len(results), total, "%s, %.0e keys: %s %.0f %%", r.Workload, float64(keys), c.Name, 100*part)
				}
				err := runFlood(ctx, job{Contender: c.Name, Rule: o.Rule, Flood: &floodJob{keys, pulses, o.Cap}}, &r, tell)
				if ctx.Err() != nil {
					return results, context.Cause(ctx)
				} else if err != nil {
					r.Error = err.Error()
				}
				results = append(results, r)
			}
		}
	}
	o.Progress.report(total, total, "done")
	return results, nil
}

func floodName(pulses bool) string {
	if pulses {
		return "flood, hitter in pulses"
	}
	return "flood, steady hitter"
}

// runFlood fills the result from what a child reports.
func runFlood(ctx context.Context, j job, r *Result, tell func(part float64)) error {
	c, err := startChild(ctx, j)
	if err != nil {
		return err
	}
	defer c.stop()
	tell(0)
	for {
		line, err := c.next()
		if err != nil {
			return err
		}
		f := line.Flood
		if !f.Done {
			tell(float64(f.Keys) / float64(j.Flood.Keys))
			continue
		}
		r.Requests = f.Decisions
		if !f.Paced {
			r.NsPerOp = new(float64(f.Took) / float64(f.Decisions))
		}
		r.RSSBytes, r.RSSGrowth = &f.RSS, new(f.RSS-f.Warm)
		r.Excess, r.FalseDenials = &f.Excess, &f.FalseDenials
		r.HitterAdmitted = new(float64(f.Admitted) / float64(max(1, f.Limit)))
		if f.Keys < j.Flood.Keys {
			r.Error = fmt.Sprintf("grew past %d MiB at %d keys", j.Flood.Cap>>20, f.Keys)
		}
		return nil
	}
}
