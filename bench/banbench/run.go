//go:build linux

package banbench

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/stand"
	"github.com/fastlimit/fastlimit/internal/testkit/netns"
)

// Check reports options that cannot be measured.
func (o Options) Check() error {
	o = defaults.Of(o)
	if o.Rate < 1 || o.Duration < time.Second || o.Quiet < time.Second || slices.Min(o.Sources) < 1 || slices.Max(o.Sources) > 1<<16 {
		return fmt.Errorf("bench: bans: want 1 to 65536 sources, 1 request and 1 s or more: %+v", o)
	}
	for _, name := range o.Servers {
		if !slices.ContainsFunc(contenders, func(c contender) bool { return c.id == name }) {
			return fmt.Errorf("bench: bans: --server %q: no such server", name)
		}
	}
	return nil
}

// Again runs the program again in namespaces, with the same arguments, unless it is in some.
func Again() (done bool, err error) {
	if netns.Inside() {
		return false, nil
	}
	cmd, err := netns.Again(os.Args[1:]...)
	if err != nil {
		return true, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // it dies with the thread
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return true, fmt.Errorf("bench: bans: in user and network namespaces: %w", err)
	}
	return true, nil
}

// Run measures all servers, each under all floods. The results are valid beside an
// error.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	o = defaults.Of(o)
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = stand.On(func(s *stand.Stand) error {
		world := netns.New(s)
		receiver, err := world.Receiver()
		if err != nil {
			return err
		}
		on, err := cores()
		if err != nil {
			return err
		}
		all := o.contenders()
		for i, c := range all {
			for _, n := range o.Sources {
				o.Progress.Tell(i, len(all), "%s, %d sources", c.name, n)
				r, err := o.measure(ctx, &site{c, world, receiver, on, s.TempDir(), o.Fastlimit}, n)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				results = append(results, r)
			}
		}
		return nil
	})
	return results, err
}

// cores keeps this process, the clients, off the first core, and returns that one for the
// servers. With one core there is none.
func cores() ([]int, error) {
	all, err := proc.Cores()
	if err != nil || len(all) < 2 {
		return nil, err
	}
	return all[:1], proc.PinSelf(all[1:])
}

// phases of a measurement.
const (
	idleTime  = 2 * time.Second
	stillness = time.Second     // without an answer is quiet
	answering = 5 * time.Second // under flood, for a server that shuts nobody out
	patience  = 200 * time.Millisecond
	conns     = 800 // of a flood, as many as fastlimit lets one client have, and some spare
)

// measure has one server flooded.
func (o Options) measure(ctx context.Context, at *site, sources int) (res report.Result, err error) {
	running, err := at.start(ctx)
	if err != nil {
		return res, err
	}
	defer running.stop()
	polite := netns.Load{
		Server: address, Sources: netns.Sources(netip.MustParsePrefix("10.200.0.0/16"), 32, 200), Rate: 100, Patience: 5 * time.Second,
	}.Start()
	defer polite.Stop()
	idle, err := running.during(ctx, polite, idleTime)
	if err != nil {
		return res, err
	}
	flood := netns.Load{
		Server: address, Sources: netns.Sources(netip.MustParsePrefix("10.128.0.0/16"), 32, sources), Rate: o.Rate, KeepAlive: o.Lasting,
		Conns: max(conns, sources), Patience: patience,
	}.Start()
	defer flood.Stop()
	shut, err := o.quiet(ctx, at.shuts, flood)
	if err != nil {
		return res, err
	}
	before := flood.Counts()
	busy, err := running.during(ctx, polite, o.Duration)
	if err != nil {
		return res, err
	}
	return o.result(at, sources, idle, busy, flood.Counts().Since(before), shut), nil
}

// quiet waits until the flood gets no answer any more, and returns how long after its
// start it had the last one; 0 if it is answered on.
func (o Options) quiet(ctx context.Context, shuts bool, flood *netns.Running) (after time.Duration, err error) {
	begin := time.Now()
	if !shuts {
		return 0, sleep(ctx, answering)
	}
	var last int64
	for time.Since(begin) < o.Quiet {
		c := flood.Counts()
		if answers := c.Sent - c.Lost; answers > last {
			last, after = answers, time.Since(begin)
		} else if last > 0 && time.Since(begin)-after > stillness {
			return after, nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
