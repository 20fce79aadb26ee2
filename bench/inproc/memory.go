package inproc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
)

// MemoryOptions configure [Memory].
type MemoryOptions struct {
	Options

	// Keys are the sizes of the floods, up to 4·10^9 or so. nil means 10^6 and
	// 10^7. From 10^7 on a smaller one is the beginning of the largest.
	Keys []int64 `kong:"-"`
	// Cap is the resident memory in bytes at which a limiter is stopped. 0
	// means three quarters of what this machine has to spare.
	Cap      int64         `kong:"-"`
	Patience time.Duration `default:"3m" help:"Time after which a limiter is stopped in a flood."`
}

func (o MemoryOptions) withDefaults() (MemoryOptions, error) {
	o = defaults.Of(o)
	o.Options = o.Options.withDefaults()
	if o.Keys == nil {
		o.Keys = []int64{1e6, 1e7}
	}
	for _, n := range o.Keys {
		if n < 10 || n >= maxFlood {
			return o, fmt.Errorf("bench: a flood of %d keys: want 10 to %d", n, int64(maxFlood-1))
		}
	}
	o.Keys = slices.Compact(slices.Sorted(slices.Values(o.Keys)))
	if o.Cap == 0 {
		spare, err := proc.AvailableBytes()
		o.Cap = spare / 4 * 3
		return o, err
	}
	return o, nil
}

// floods are the keys by flood: sizes that come at the same rate share one.
func (o MemoryOptions) floods() (all [][]int64) {
	for i, n := range o.Keys {
		if i > 0 && rateOf(n) == rateOf(o.Keys[i-1]) {
			all[len(all)-1] = append(all[len(all)-1], n)
		} else {
			all = append(all, []int64{n})
		}
	}
	return all
}

// Memory sends floods of distinct clients, each seen once, through limiters in
// processes of their own, with two clients over their limit hidden in the
// flood, the hitters: a steady one, and one in pulses. It reports resident
// memory at the end and its growth since warm-up, and how much of a hitter was
// admitted, to what its limit admits: a limiter that forgets it under the flood
// admits more. A limiter that takes too much memory or time is stopped, and its
// result says where. When ctx ends it returns what it has, and the cause.
func Memory(ctx context.Context, o MemoryOptions) ([]report.Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if _, err := proc.SelfRSS(); err != nil {
		return nil, err
	}
	var results []report.Result
	done, total := 0, len(o.floods())*len(o.Contenders)
	for _, keys := range o.floods() {
		for _, c := range o.Contenders {
			last := keys[len(keys)-1]
			tell := func(sent int64) {
				o.Progress.Tell(done, total, "flood of %.0e keys: %s %d %%", float64(last), c.Name, 100*sent/last)
			}
			more, err := runFlood(ctx, o, c, keys, tell)
			results = append(results, more...)
			if ctx.Err() != nil {
				return results, context.Cause(ctx)
			} else if err != nil {
				for _, n := range keys[len(more)/2:] {
					r := floodResults(c, n, err.Error())
					results = append(results, r[:]...)
				}
			}
			done++
		}
	}
	o.Progress.Tell(total, total, "done")
	return results, nil
}

// runFlood makes results of what a child reports.
func runFlood(ctx context.Context, o MemoryOptions, c Contender, keys []int64, tell func(sent int64)) (results []report.Result, err error) {
	child, err := startChild(ctx, job{Contender: c.Name, Rule: o.Rule, Flood: &floodJob{keys, o.Cap, o.Patience}})
	if err != nil {
		return nil, err
	}
	defer child.stop()
	tell(0)
	for len(keys) > 0 {
		line, err := child.next()
		if err != nil {
			return results, err
		}
		f := line.Flood
		tell(f.Keys)
		for len(keys) > 0 && (f.Reached && keys[0] == f.Keys || f.Stopped) {
			for _, r := range f.Results {
				r.Keys = keys[0] // a flood that stops answers for the larger ones too
				results = append(results, r)
			}
			keys = keys[1:]
		}
	}
	return results, nil
}
