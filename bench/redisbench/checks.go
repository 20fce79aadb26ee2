package redisbench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
)

const (
	// checkCallers wait for Redis at once, as requests of a busy edge do. Batches
	// can be no larger than that.
	checkCallers = 64
	checkKeys    = 1024 // few enough for Redis to keep in its caches
)

// checkLoad is a set of hot keys: either all far below their limit, so that every
// check writes to Redis, or all over it, so that none does.
type checkLoad struct {
	workload string
	per      time.Duration // of one unit
	burst    uint64
}

var checkLoads = []checkLoad{
	{"exact checks, admitted", time.Second, 1_000_000},
	{"exact checks, denied", 24 * time.Hour, 1},
}

// contender makes exact checks one way. Callers share it: check must be safe for
// concurrent use, and returns when Redis has answered.
type contender struct {
	name, setup string
	check       func(ctx context.Context, key int) (admitted bool, err error)
	close       func() error

	rounds   []checkRound
	requests int64
}

// checkRound is what a round of one contender took: wall time, CPU time of this
// process, and of Redis.
type checkRound struct{ wall, here, redis time.Duration }

// checks compares exact checks by many callers who wait: through the limiter
// and the store, which batches, and one EVALSHA for each on go-redis. They take
// turns in short rounds, and medians count.
func (o Options) checks(ctx context.Context, redis *proc.Child, addr string) (results []report.Result, err error) {
	for _, l := range checkLoads {
		more, err := o.checksOf(ctx, l, redis, addr)
		results = append(results, more...)
		if err != nil {
			return results, fmt.Errorf("%s: %w", l.workload, err)
		}
	}
	return results, nil
}

// checksOf compares all ways under one load. Each round begins with another way,
// so that none always follows the same neighbour.
func (o Options) checksOf(ctx context.Context, l checkLoad, redis *proc.Child, addr string) (_ []report.Result, err error) {
	var all []*contender
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
	}()
	ways := []func(context.Context, checkLoad, string) (*contender, error){viaLimiter, viaStore, viaScript}
	if l.burst == 1 {
		ways = ways[1:] // the limiter denies these itself, without asking Redis
	}
	for _, make := range ways {
		c, err := make(ctx, l, addr)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		if err := c.warm(ctx, l); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for n := range o.Rounds {
		for i := range all {
			c := all[(i+n)%len(all)]
			if err := c.measure(ctx, o.Checks, redis); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	usual := all[len(all)-1] // viaScript, which the others are compared with
	var results []report.Result
	for _, c := range all {
		results = append(results, c.result(l, usual))
	}
	return results, nil
}

// warm connects, loads scripts, and brings every key to the level at which it
// stays.
func (c *contender) warm(ctx context.Context, l checkLoad) error {
	for range 2 {
		if err := c.run(ctx, checkKeys); err != nil {
			return err
		}
	}
	admitted, err := c.check(ctx, 0)
	if err == nil && admitted != (l.burst > 1) {
		err = errors.New("BUG: admits what is to be denied, or denies what is to be admitted")
	}
	return err
}

// run makes n checks by all callers, all keys in turn.
func (c *contender) run(ctx context.Context, n int) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range checkCallers {
		wg.Go(func() {
			// 7919 is a prime: neighbours in time are no neighbours in the table.
			for i := next.Add(1); i <= int64(n) && failed.Load() == nil; i = next.Add(1) {
				if _, err := c.check(ctx, int(i*7919)%checkKeys); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("bench: a check in Redis: %w", *err)
	}
	return nil
}

// measure runs one round.
func (c *contender) measure(ctx context.Context, n int, redis *proc.Child) error {
	wall, here, there, err := redis.Cost(func() error { return c.run(ctx, n) })
	c.rounds = append(c.rounds, checkRound{wall, here, there})
	c.requests += int64(n)
	return err
}

// result is the medians over all rounds. Speedup is the median of the quotient
// within rounds, since both sides of a round met the same machine.
func (c *contender) result(l checkLoad, usual *contender) report.Result {
	n := float64(c.requests) / float64(len(c.rounds))
	res := report.Result{
		Group: "redis", Workload: l.workload, Limiter: c.name,
		Setup: fmt.Sprintf("%s; %d callers, %d hot keys, 1 per %v, burst %d", c.setup, checkCallers, checkKeys, l.per, l.burst),
		Keys:  checkKeys, Requests: c.requests,
		PerSecond:      c.median(func(i int) float64 { return n / c.rounds[i].wall.Seconds() }),
		CPUMicros:      c.median(func(i int) float64 { return c.rounds[i].here.Seconds() * 1e6 / n }),
		StoreCPUMicros: c.median(func(i int) float64 { return c.rounds[i].redis.Seconds() * 1e6 / n }),
	}
	if c != usual {
		res.Speedup = c.median(func(i int) float64 { return usual.rounds[i].wall.Seconds() / c.rounds[i].wall.Seconds() })
	}
	return res
}

// median of a figure over the rounds.
func (c *contender) median(of func(round int) float64) *float64 {
	var v []float64
	for i := range c.rounds {
		v = append(v, of(i))
	}
	return new(report.Median(v))
}

func benchKey(i int) string { return "192.0.2." + strconv.Itoa(i) }
