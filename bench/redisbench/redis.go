// Package redisbench measures what exact buckets in Redis cost: how often Redis
// is asked while one client floods among many that conform (P4), and how many
// checks get done beside the usual way of one EVALSHA per request.
package redisbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/storebench"
	"github.com/fastlimit/fastlimit/bucket"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
)

// Options configure [Run]. Zero fields mean defaults.
type Options struct {
	Path     string          `default:"redis-server"` // of the program that is started
	Clients  int             `default:"100000"`       // that conform
	Flood    float64         `default:"20000"`        // requests per second of the one that does not; the others send as much together
	Duration time.Duration   `default:"4s"`           // of the flood
	Checks   int             `default:"20000"`        // in a round of exact checks
	Rounds   int             `default:"9"`            // of each way to check
	Progress report.Progress `kong:"-"`
}

// FaultOptions configure [RunFaults]. Zero fields mean defaults.
type FaultOptions struct {
	Redis    string          `default:"redis-server"` // the program that is started
	Timeout  time.Duration   `default:"5ms"`          // how long a request may wait for Redis
	Duration time.Duration   `default:"1s"`           // of a fault, beside the time to strike and to get over it
	Only     []string        `kong:"-"`               // names of faults; none means all
	Progress report.Progress `kong:"-"`
}

// Check reports an error if there is no Redis to start.
func (o Options) Check() error {
	if _, err := exec.LookPath(defaults.Of(o).Path); err != nil {
		return fmt.Errorf("bench: no Redis to measure: %w; install redis-server", err)
	}
	return nil
}

var versionNumber = regexp.MustCompile(`v=(\S+)`)

// Version is what the server says it is, "" where that is not known.
func (o Options) Version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, defaults.Of(o).Path, "--version").Output()
	if m := versionNumber.FindSubmatch(out); err == nil && m != nil {
		return string(m[1])
	}
	return ""
}

// Run starts a Redis that keeps nothing and measures with it. The results are
// valid beside an error, for what was done until then.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	o = defaults.Of(o)
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = WithServer(ctx, o.Path, func(server *proc.Child, addr string) error {
		asStore := func(ctx context.Context, timeout time.Duration) (bucket.Store, error) {
			return open(ctx, addr, timeout)
		}
		checks := storebench.Checks{
			Group: "redis", Ways: []storebench.Way{storebench.ViaLimiter(asStore), storebench.ViaStore("redisstore", asStore), viaScript(addr)},
			Checks: o.Checks, Rounds: o.Rounds, Cost: server.Cost,
		}
		flood := func(ctx context.Context) ([]report.Result, error) { return o.flood(ctx, addr) }
		for i, measure := range []func(context.Context) ([]report.Result, error){flood, checks.Run} {
			o.Progress.Tell(i, 2, "redis: %s", [...]string{"flood", "exact checks"}[i])
			more, err := measure(ctx)
			results = append(results, more...)
			if err != nil {
				return err
			}
		}
		o.Progress.Tell(2, 2, "done")
		return nil
	})
	return results, err
}

// flood sends one client's flood among others that conform.
func (o Options) flood(ctx context.Context, addr string) ([]report.Result, error) {
	const patience = 5 * time.Millisecond // the default of a configuration
	store, err := open(ctx, addr, patience)
	if err != nil {
		return nil, err
	}
	f := storebench.Flood{Group: "redis", Store: "Redis", Timeout: patience, Clients: o.Clients, PerSecond: o.Flood, Duration: o.Duration}
	results, err := f.Run(ctx, store, func() uint64 { return store.Stats().Takes })
	return results, errors.Join(err, storebench.CloseStore(store))
}

// WithServer calls f with a Redis that keeps nothing, started for it from a program,
// and the address of that Redis.
func WithServer(ctx context.Context, program string, f func(server *proc.Child, addr string) error) error {
	dir, err := os.MkdirTemp("", "fastlimit-redis-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addr, err := proc.FreeAddr()
	if err != nil {
		return err
	}
	server, err := startRedis(ctx, program, dir, addr)
	if err != nil {
		return err
	}
	defer server.Stop()
	return f(server, addr)
}

// startRedis starts a Redis that keeps nothing.
func startRedis(ctx context.Context, path, dir, addr string) (*proc.Child, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return proc.Start(ctx, proc.Config{
		Path: path, Dir: dir, Addr: addr,
		Args: []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no"},
	})
}

// open connects a store. The timeout must be long enough for what is measured: a
// check that times out is answered without Redis, and looks cheap.
func open(ctx context.Context, addr string, timeout time.Duration) (*redisstore.Store, error) {
	s, err := connect(ctx, redisstore.Config{Addrs: []string{addr}, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("bench: redis on %s: %w", addr, err)
	}
	return s, nil
}

func connect(ctx context.Context, c redisstore.Config) (*redisstore.Store, error) {
	return storebench.Connect(ctx, func(ctx context.Context) (*redisstore.Store, error) { return redisstore.Open(ctx, c) })
}
