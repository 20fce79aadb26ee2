// Package storebench compares ways to check limits exactly in a store that nodes share,
// and counts what that store is asked while one client floods (P4). It knows no store:
// packages redisbench and postgresbench start one and add the usual way to ask it.
package storebench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench/report"
)

const (
	// Callers wait for the store at once, as requests of a busy edge do. Batches can be
	// no larger than that.
	Callers = 64
	// Keys are few enough for a store to keep in its caches.
	Keys = 1024
)

// Load is a set of hot keys: either all far below their limit, so that every check
// writes to the store, or all over it, so that none does.
type Load struct {
	Workload string
	Per      time.Duration // of one unit
	Burst    uint64
}

var loads = []Load{
	{"exact checks, admitted", time.Second, 1_000_000},
	{"exact checks, denied", 24 * time.Hour, 1},
}

// Denied reports whether the load is of keys over their limit.
func (l Load) Denied() bool { return l.Burst == 1 }

// Contender makes exact checks one way. Callers share it: Check must be safe for
// concurrent use, and returns when the store has answered.
type Contender struct {
	Name, Setup string
	Check       func(ctx context.Context, key int) (admitted bool, err error)
	Close       func() error

	rounds   []round
	requests int64
}

// Way makes a contender for a load, nil if it has no part in that.
type Way func(context.Context, Load) (*Contender, error)

// round is what a round of one contender took: wall time, CPU time of this process,
// and of the store.
type round struct{ wall, here, store time.Duration }

// Checks compares exact checks by many callers who wait.
type Checks struct {
	Group  string // of the results
	Ways   []Way  // the last is the usual way, which the others are compared with
	Checks int    // in a round
	Rounds int

	// Cost runs a round, and returns its wall time and the CPU time of this process
	// and of the store.
	Cost func(f func() error) (wall, here, store time.Duration, err error)
}

// Run measures all loads. Contenders take turns in short rounds, and medians count. The
// results are valid beside an error.
func (o *Checks) Run(ctx context.Context) (results []report.Result, err error) {
	for _, l := range loads {
		more, err := o.run(ctx, l)
		results = append(results, more...)
		if err != nil {
			return results, fmt.Errorf("%s: %w", l.Workload, err)
		}
	}
	return results, nil
}

// run compares all ways under one load. Each round begins with another way, so that
// none always follows the same neighbour.
func (o *Checks) run(ctx context.Context, l Load) (_ []report.Result, err error) {
	var all []*Contender
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.Close())
		}
	}()
	for _, make := range o.Ways {
		c, err := make(ctx, l)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		all = append(all, c)
		if err := c.warm(ctx, l); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	for n := range o.Rounds {
		for i := range all {
			c := all[(i+n)%len(all)]
			if err := c.measure(ctx, o); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
		}
	}
	usual := all[len(all)-1]
	var results []report.Result
	for _, c := range all {
		results = append(results, c.result(o.Group, l, usual))
	}
	return results, nil
}

// warm connects, loads scripts, and brings every key to the level at which it
// stays.
func (c *Contender) warm(ctx context.Context, l Load) error {
	for range 2 {
		if err := c.run(ctx, Keys); err != nil {
			return err
		}
	}
	admitted, err := c.Check(ctx, 0)
	if err == nil && admitted != (!l.Denied()) {
		err = errors.New("BUG: admits what is to be denied, or denies what is to be admitted")
	}
	return err
}

// run makes n checks by all callers, all keys in turn.
func (c *Contender) run(ctx context.Context, n int) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range Callers {
		wg.Go(func() {
			// 7919 is a prime: neighbours in time are no neighbours in the table.
			for i := next.Add(1); i <= int64(n) && failed.Load() == nil; i = next.Add(1) {
				if _, err := c.Check(ctx, int(i*7919)%Keys); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("bench: a check in the store: %w", *err)
	}
	return nil
}

// measure runs one round.
func (c *Contender) measure(ctx context.Context, o *Checks) error {
	wall, here, there, err := o.Cost(func() error { return c.run(ctx, o.Checks) })
	c.rounds = append(c.rounds, round{wall, here, there})
	c.requests += int64(o.Checks)
	return err
}

// result is the medians over all rounds. Speedup is the median of the quotient
// within rounds, since both sides of a round met the same machine.
func (c *Contender) result(group string, l Load, usual *Contender) report.Result {
	n := float64(c.requests) / float64(len(c.rounds))
	res := report.Result{
		Group: group, Workload: l.Workload, Limiter: c.Name,
		Setup: fmt.Sprintf("%s; %d callers, %d hot keys, 1 per %v, burst %d", c.Setup, Callers, Keys, l.Per, l.Burst),
		Keys:  Keys, Requests: c.requests,
		PerSecond:      c.median(func(i int) float64 { return n / c.rounds[i].wall.Seconds() }),
		CPUMicros:      c.median(func(i int) float64 { return c.rounds[i].here.Seconds() * 1e6 / n }),
		StoreCPUMicros: c.median(func(i int) float64 { return c.rounds[i].store.Seconds() * 1e6 / n }),
	}
	if c != usual {
		res.Speedup = c.median(func(i int) float64 { return usual.rounds[i].wall.Seconds() / c.rounds[i].wall.Seconds() })
	}
	return res
}

// median of a figure over the rounds.
func (c *Contender) median(of func(round int) float64) *float64 {
	var v []float64
	for i := range c.rounds {
		v = append(v, of(i))
	}
	return new(report.Median(v))
}

// Key is the name of a key.
func Key(i int) string { return "192.0.2." + strconv.Itoa(i) }
