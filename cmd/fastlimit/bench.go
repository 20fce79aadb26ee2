package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench"
	"github.com/fastlimit/fastlimit/bench/clusterbench"
	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/redisbench"
)

// benchCmd holds the flags that all measurements share.
type benchCmd struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Format of the results: text or json."`
	Out    string `placeholder:"FILE" help:"Write the results there instead of stdout."`
	HTML   string `name:"html" placeholder:"FILE" help:"Write a page with tables and plots too."`
	Seed   uint64 `default:"1" help:"Random seed."`

	Local    benchLocal    `cmd:"" help:"Speed within a process: time and allocations per decision, on 1 to all cores."`
	Accuracy benchAccuracy `cmd:"" help:"False denials, excess and exact checks, against an exact oracle."`
	Memory   benchMemory   `cmd:"" help:"Memory under floods of distinct clients, and whether a heavy client hidden in one stays limited."`
	HTTP     benchHTTP     `cmd:"" name:"http" help:"A limiter over HTTP: the one at URL, or fastlimit beside nginx, HAProxy and others, started here."`
	Redis    benchRedis    `cmd:"" help:"Redis operations per request under a flood, and exact checks per second, on a Redis started here."`
	Cluster  benchCluster  `cmd:"" help:"What nodes tell each other: bytes for each peer, and what stays untold, by the number of active clients. In memory, in simulated time."`
	All      benchAll      `cmd:"" help:"All of them in short, in under a minute."`
	Report   benchReport   `cmd:"" help:"Merge JSON reports into one page or table."`
}

type (
	benchLocal struct {
		Workload []string `placeholder:"NAME" help:"zipf-1.1, distinct, hot-denied. Default: all."`
		Cores    []int    `placeholder:"N" help:"Numbers of cores to decide on. Default: 1, 2, 4 and so on."`
		Rounds   int      `default:"11" help:"Turns of each limiter."`
	}
	benchAccuracy struct {
		Workload []string      `placeholder:"NAME" help:"Workloads, for example zipf-1.1. Default: all."`
		Requests int           `default:"300000" help:"Requests of each workload, about."`
		Duration time.Duration `default:"6s" help:"Time that each workload spans. It is simulated where a limiter can be told the time."`
		Redis    string        `placeholder:"URL" help:"Measure fastlimit with its exact buckets in this Redis too, in real time: redis://host:port/db."`
	}
	benchMemory struct {
		Keys     []float64     `default:"1e6,1e7" placeholder:"N" help:"Sizes of the floods, in clients: 1e6,1e7,1e8."`
		Cap      float64       `placeholder:"GIB" help:"Resident memory in GiB at which a limiter is stopped. Default: three quarters of what is free."`
		Patience time.Duration `default:"3m" help:"Time after which a limiter is stopped in a flood."`
	}
	benchRedis struct {
		Server   string        `default:"redis-server" help:"Path of redis-server."`
		Duration time.Duration `placeholder:"4s" help:"Of the flood, of each flood over HTTP (10s), of each fault (1s)."`
		Timeout  time.Duration `default:"5ms" help:"How long a request may wait for Redis while it misbehaves."`
		HTTP     bool          `name:"http" help:"Measure what Redis is asked under a flood over HTTP instead, at 1000/s, 15000/s and full speed, among 100,000 clients that conform."`
		Faults   bool          `help:"Measure how long requests wait while Redis misbehaves instead, in every way that can be made."`
	}
	benchCluster struct {
		Keys       []float64     `default:"1e3,1e5,1e6" placeholder:"N" help:"Numbers of active clients."`
		Rate       int           `default:"200000" help:"Requests per second at the measured node."`
		Duration   time.Duration `default:"30s" help:"Of the traffic, simulated."`
		Interval   time.Duration `default:"100ms" help:"Of the exchange."`
		MaxBytes   int           `default:"16384" help:"Ceiling in bytes for each peer and interval."`
		TopTalkers int           `default:"8192" help:"Clients counted by name."`
	}
	benchAll struct{}
)

// Run implements the command.
func (c *benchLocal) Run(ctx context.Context, sys *system, b *benchCmd) error {
	return b.measure(ctx, sys, b.local(c))
}

// Run implements the command.
func (c *benchAccuracy) Run(ctx context.Context, sys *system, b *benchCmd) error {
	part, err := b.accuracy(c)
	if err != nil {
		return err
	}
	return b.measure(ctx, sys, part)
}

// Run implements the command.
func (c *benchMemory) Run(ctx context.Context, sys *system, b *benchCmd) error {
	part, err := b.memory(c)
	if err != nil {
		return err
	}
	return b.measure(ctx, sys, part)
}

// Run implements the command.
func (c *benchRedis) Run(ctx context.Context, sys *system, b *benchCmd) error {
	o := redisbench.Options{Path: c.Server, Duration: c.Duration}
	if err := o.Check(); err != nil {
		return err
	}
	if c.Duration < 0 || c.Timeout <= 0 {
		return usageError{fmt.Errorf("--duration %v --timeout %v: want more than 0", c.Duration, c.Timeout)}
	}
	var parts []benchPart
	if c.HTTP {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		parts = append(parts, benchPart{versions: redisPart(o).versions, run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
			return redisbench.RunHTTP(ctx, redisbench.HTTPOptions{Redis: c.Server, Fastlimit: self, Duration: c.Duration, Progress: p})
		}})
	}
	if c.Faults {
		parts = append(parts, benchPart{versions: redisPart(o).versions, run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
			return redisbench.RunFaults(ctx, redisbench.FaultOptions{Redis: c.Server, Duration: c.Duration, Timeout: c.Timeout, Progress: p})
		}})
	}
	if parts == nil {
		parts = append(parts, redisPart(o))
	}
	return b.measure(ctx, sys, parts...)
}

// Run implements the command.
func (c *benchCluster) Run(ctx context.Context, sys *system, b *benchCmd) error {
	part, err := b.cluster(c)
	if err != nil {
		return err
	}
	return b.measure(ctx, sys, part)
}

// Run implements the command. What is not installed is left out with a word.
func (benchAll) Run(ctx context.Context, sys *system, b *benchCmd) error {
	accuracy, err := b.accuracy(&benchAccuracy{Requests: 50_000, Duration: 6 * time.Second})
	if err != nil {
		return err
	}
	memory, err := b.memory(&benchMemory{Keys: []float64{1e6}})
	if err != nil {
		return err
	}
	cluster, err := b.cluster(&benchCluster{Keys: []float64{1e3, 1e6}, Duration: 10 * time.Second})
	if err != nil {
		return err
	}
	parts := []benchPart{b.local(&benchLocal{Rounds: 5}), accuracy, memory, cluster}
	servers, err := installed(sys, func(string) string { return "" })
	if err != nil {
		return err
	}
	o := httpbench.Options{Servers: servers, Rounds: 3, Requests: 10_000, Duration: 3 * time.Second}
	if err := o.Check(); err != nil {
		fmt.Fprintf(sys.stderr, "left out: http: %v\n", err)
	} else {
		parts = append(parts, serversPart(o))
	}
	r := redisbench.Options{Duration: 3 * time.Second, Checks: 10_000, Rounds: 5}
	if err := r.Check(); err != nil {
		fmt.Fprintf(sys.stderr, "left out: redis: %v\n", err)
	} else {
		parts = append(parts, redisPart(r))
	}
	return b.measure(ctx, sys, parts...)
}

// benchPart is one kind of measurement. Its results count beside an error.
type benchPart struct {
	run func(context.Context, bench.Progress) ([]bench.Result, error)
	// versions are those of the programs beside which it measures; nil is none.
	versions func(context.Context) map[string]string
}

func (b *benchCmd) options(p bench.Progress) bench.Options {
	return bench.Options{Seed: b.Seed, Progress: p}
}

func (b *benchCmd) local(c *benchLocal) benchPart {
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		return bench.Local(ctx, bench.LocalOptions{Options: b.options(p), Workloads: c.Workload, Cores: c.Cores, Rounds: c.Rounds})
	}}
}

func (b *benchCmd) accuracy(c *benchAccuracy) (benchPart, error) {
	var workloads []*bench.Workload
	for _, name := range c.Workload {
		w, err := bench.FindWorkload(name)
		if err != nil {
			return benchPart{}, usageError{err}
		}
		workloads = append(workloads, w)
	}
	if c.Requests < 1 || c.Duration <= 0 {
		return benchPart{}, usageError{fmt.Errorf("--requests %d --duration %v: want more than 0", c.Requests, c.Duration)}
	}
	contenders := bench.DefaultContenders()
	if c.Redis != "" {
		shared := redisbench.Contender(c.Redis)
		if err := tryOut(shared); err != nil {
			return benchPart{}, fmt.Errorf("--redis: %w", err)
		}
		contenders = append(contenders, shared)
	}
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		o := b.options(p)
		o.Contenders = contenders
		return bench.Accuracy(ctx, bench.AccuracyOptions{Options: o, Workloads: workloads, Requests: c.Requests, Duration: c.Duration})
	}}, nil
}

// tryOut makes a limiter once, so that what it lacks is known before a run.
func tryOut(c bench.Contender) error {
	l, err := c.New(bench.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1})
	if closer, ok := l.(io.Closer); ok && err == nil {
		err = closer.Close()
	}
	return err
}

func (b *benchCmd) memory(c *benchMemory) (benchPart, error) {
	keys, err := wholeNumbers(c.Keys, 1e9)
	if err != nil {
		return benchPart{}, err
	}
	if c.Cap < 0 || c.Patience < 0 {
		return benchPart{}, usageError{fmt.Errorf("--cap %v --patience %v: want 0 or more", c.Cap, c.Patience)}
	}
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		return bench.Memory(ctx, bench.MemoryOptions{
			Options: b.options(p), Keys: keys, Cap: int64(c.Cap * (1 << 30)), Patience: c.Patience,
		})
	}}, nil
}

func wholeNumbers(of []float64, most float64) (keys []int64, err error) {
	for _, k := range of {
		if k < 10 || k > most || k != float64(int64(k)) {
			return nil, usageError{fmt.Errorf("--keys %v: want whole numbers from 10 to %.0e", k, most)}
		}
		keys = append(keys, int64(k))
	}
	return keys, nil
}

func (b *benchCmd) cluster(c *benchCluster) (benchPart, error) {
	keys, err := wholeNumbers(c.Keys, 1e7)
	if err != nil {
		return benchPart{}, err
	}
	o := clusterbench.Options{
		Keys: keys, PerSecond: c.Rate, Duration: c.Duration, Interval: c.Interval,
		MaxBytes: c.MaxBytes, TopTalkers: c.TopTalkers, Seed: b.Seed,
	}
	if err := o.Check(); err != nil {
		return benchPart{}, usageError{err}
	}
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		o.Progress = p
		return clusterbench.Run(ctx, o)
	}}, nil
}

func redisPart(o redisbench.Options) benchPart {
	return benchPart{
		run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
			o.Progress = p
			return redisbench.Run(ctx, o)
		},
		versions: func(ctx context.Context) map[string]string {
			return map[string]string{"Redis": o.Version(ctx)}
		},
	}
}
