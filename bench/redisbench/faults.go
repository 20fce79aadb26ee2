//go:build linux

package redisbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/stand"
	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/testkit/redisfault"
)

// faults are those asked for, after none at all, to compare with.
func (o FaultOptions) faults() (all []redisfault.Fault, err error) {
	for _, f := range append([]redisfault.Fault{redisfault.None()}, redisfault.All()...) {
		if len(o.Only) == 0 || slices.Contains(o.Only, f.Name) {
			all = append(all, f)
		}
	}
	if len(all) < len(o.Only) {
		return nil, fmt.Errorf("bench: faults %q: %d of them are known", o.Only, len(all))
	}
	return all, nil
}

// RunFaults strikes a Redis that it starts with every fault, one after the
// other, under requests that all want an exact check, and tells how long they
// waited and what the failure policies decided. No figure is a failure. The
// results are valid beside an error.
func RunFaults(ctx context.Context, o FaultOptions) (results []report.Result, err error) {
	o = defaults.Of(o)
	if err := (Options{Path: o.Redis}).Check(); err != nil {
		return nil, err
	}
	faults, err := o.faults()
	if err != nil {
		return nil, err
	}
	defer redisfault.UseNames()()
	for i := range faults {
		f := &faults[i]
		o.Progress.Tell(i, len(faults), "redis: %s", f.Name)
		err := stand.On(func(t *stand.Stand) error {
			res, err := o.run(ctx, &onRedis{t, o.Redis}, f)
			if err == nil {
				results = append(results, res)
			}
			return err
		})
		if err != nil {
			return results, fmt.Errorf("fault %q: %w", f.Name, err)
		}
	}
	o.Progress.Tell(len(faults), len(faults), "done")
	return results, nil
}

// onRedis is a stand that says which Redis to start.
type onRedis struct {
	*stand.Stand

	program string
}

// RedisServer is the program to start.
func (s *onRedis) RedisServer() string { return s.program }

// run measures one fault: from its beginning until Redis is used again.
func (o FaultOptions) run(ctx context.Context, t *onRedis, f *redisfault.Fault) (res report.Result, err error) {
	site := redisfault.New(t, f)
	store, err := redisstore.Open(ctx, redisstore.Config{
		URL: "redis://" + site.Addr(), Timeout: o.Timeout, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil && !errors.Is(err, bucket.ErrAway) {
		return res, err
	}
	c, err := newCrowd(store, o.Timeout)
	if err != nil {
		return res, errors.Join(err, storebench.CloseStore(store))
	}
	t.Cleanup(func() {
		c.end()
		_ = storebench.CloseStore(store) // it may be broken still
	})
	c.start(ctx)
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return res, err
	}
	c.recording.Store(true)
	site.Strike()
	if err := pause(ctx, o.Duration); err != nil {
		return res, err
	}
	site.Heal()
	healed := time.Now()
	for store.Stats().State != "closed" {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return res, err
		}
		if time.Since(healed) > time.Minute {
			return res, errors.New("bench: Redis is not used again")
		}
	}
	back := float64(time.Since(healed).Microseconds()) / 1e3
	c.recording.Store(false)
	c.end()
	res = c.result()
	res.Group, res.Workload, res.Limiter = "redis-faults", f.Name, "fastlimit"
	res.Setup = fmt.Sprintf("%d callers, a third for each failure policy, %v apart; %v beside striking and recovering", crowdCallers, crowdPause, o.Duration)
	res.TimeoutMicros, res.BackMillis = new(float64(o.Timeout.Microseconds())), &back
	return res, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
