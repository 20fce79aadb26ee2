package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bench"
	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/redisbench"
)

// benchCmd holds the flags that all measurements share.
type benchCmd struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Format of the results: text or json."`
	Out    string `placeholder:"FILE" help:"Write the results there instead of stdout."`
	HTML   string `name:"html" placeholder:"FILE" help:"Write a page with tables and plots too."`
	Seed   uint64 `default:"1" help:"Of all random choices."`

	Local    benchLocal    `cmd:"" help:"Speed within a process: time and allocations per decision, on 1 to all cores."`
	Accuracy benchAccuracy `cmd:"" help:"False denials, excess and exact checks, against an exact oracle."`
	Memory   benchMemory   `cmd:"" help:"Memory under floods of distinct clients, and whether a heavy client hidden in one stays limited."`
	HTTP     benchHTTP     `cmd:"" name:"http" help:"A limiter over HTTP: the one at URL, or fastlimit beside nginx, HAProxy and others, started here."`
	Redis    benchRedis    `cmd:"" help:"Redis operations per request under a flood, and exact checks per second, on a Redis started here."`
	Cluster  benchCluster  `cmd:"" help:"Not supported by this version."`
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
	}
	benchMemory struct {
		Keys []float64 `default:"1e6" placeholder:"N" help:"Sizes of the floods, in clients: 1e6,1e7,1e8."`
	}
	benchRedis struct {
		Server   string        `default:"redis-server" help:"Path of redis-server."`
		Duration time.Duration `default:"4s" help:"Of the flood."`
	}
	benchCluster struct{}
	benchAll     struct{}
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
	return b.measure(ctx, sys, redisPart(o))
}

// Run implements the command.
func (benchCluster) Run() error {
	return usageError{errors.New("bench cluster: nodes are not supported by this version")}
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
	parts := []benchPart{b.local(&benchLocal{Rounds: 5}), accuracy, memory}
	servers, err := installed(sys)
	if err != nil {
		return err
	}
	o := httpbench.Options{Servers: servers, Rounds: 3, Requests: 10_000, Duration: 3 * time.Second}
	if err := o.Check(); err != nil {
		fmt.Fprintf(sys.stderr, "left out: http: %v\n", err)
	} else {
		parts = append(parts, serversPart(o))
	}
	r := redisbench.Options{Duration: 3 * time.Second, Rounds: 5}
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
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		return bench.Accuracy(ctx, bench.AccuracyOptions{Options: b.options(p), Workloads: workloads, Requests: c.Requests, Duration: c.Duration})
	}}, nil
}

func (b *benchCmd) memory(c *benchMemory) (benchPart, error) {
	var keys []int64
	for _, k := range c.Keys {
		if k < 10 || k > 1e9 || k != float64(int64(k)) {
			return benchPart{}, usageError{fmt.Errorf("--keys %v: want whole numbers from 10 to 1e9", k)}
		}
		keys = append(keys, int64(k))
	}
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		return bench.Memory(ctx, bench.MemoryOptions{Options: b.options(p), Keys: keys})
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

type benchHTTP struct {
	URL string `arg:"" optional:"" help:"The limiter to ask. It must answer every request with a Content-Length. Default: servers started here."`

	Server   []string      `placeholder:"NAME" help:"Servers to start: fastlimit, nginx, haproxy. Default: those installed."`
	Command  []string      `sep:"none" placeholder:"NAME=CMD" help:"Another server to start; {{.Addr}}, {{.PerSecond}} and {{.Burst}} in the command stand for address and rule."`
	Loop     string        `enum:"open,closed" default:"open" help:"Load on URL: open (at --rate, corrected for coordinated omission) or closed (as fast as it answers)."`
	Rate     float64       `default:"10000" help:"Requests per second of an open loop."`
	Duration time.Duration `default:"4s" help:"Of an open loop."`
	Requests int           `default:"20000" help:"Requests of a closed loop, in each round."`
	Rounds   int           `default:"7" help:"Rounds of a closed loop."`
	Clients  int           `default:"32" help:"Clients, each with a connection; of this machine each has a loopback address of its own."`
}

// Run implements the command.
func (c *benchHTTP) Run(ctx context.Context, sys *system, b *benchCmd) error {
	if c.Clients < 2 || c.Requests < 1 || c.Rounds < 1 {
		return usageError{fmt.Errorf("--clients %d --requests %d --rounds %d: want 2 clients and 1 of the others, or more", c.Clients, c.Requests, c.Rounds)}
	}
	if c.URL != "" {
		part, err := c.target(ctx)
		if err != nil {
			return err
		}
		return b.measure(ctx, sys, part)
	}
	servers, err := c.servers(sys)
	if err != nil {
		return err
	}
	o := httpbench.Options{
		Servers: servers, Clients: c.Clients, Rounds: c.Rounds, Requests: c.Requests, Rate: c.Rate, Duration: c.Duration,
	}
	open := load.OpenConfig{Rate: c.Rate, Duration: c.Duration, Conns: c.Clients}
	if err := open.Validate(); err != nil {
		return usageError{err}
	}
	if err := o.Check(); err != nil {
		return err
	}
	return b.measure(ctx, sys, serversPart(o))
}

func (c *benchHTTP) servers(sys *system) ([]httpbench.Server, error) {
	var all []httpbench.Server
	for _, name := range c.Server {
		s, err := namedServer(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(c.Server) == 0 {
		var err error
		if all, err = installed(sys); err != nil {
			return nil, err
		}
	}
	for _, spec := range c.Command {
		s, err := httpbench.Command(spec)
		if err != nil {
			return nil, usageError{err}
		}
		all = append(all, s)
	}
	return all, nil
}

func namedServer(name string) (httpbench.Server, error) {
	switch name {
	case "fastlimit":
		self, err := os.Executable()
		return httpbench.Fastlimit(self), err
	case "nginx":
		return httpbench.Nginx(), nil
	case "haproxy":
		return httpbench.HAProxy(), nil
	}
	return httpbench.Server{}, usageError{fmt.Errorf("--server %q: want fastlimit, nginx or haproxy, or --command for another", name)}
}

// installed are the servers that this machine has.
func installed(sys *system) ([]httpbench.Server, error) {
	var all []httpbench.Server
	for _, name := range []string{"fastlimit", "nginx", "haproxy"} {
		s, err := namedServer(name)
		if err != nil {
			return nil, err
		}
		if _, err := s.Find(); err != nil {
			fmt.Fprintf(sys.stderr, "left out: %v\n", err)
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

func serversPart(o httpbench.Options) benchPart {
	return benchPart{
		run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
			o.Progress = p
			return httpbench.Run(ctx, o)
		},
		versions: func(ctx context.Context) map[string]string {
			versions := map[string]string{}
			for _, s := range o.Servers {
				name, _, _ := strings.Cut(s.Name, " ")
				versions[name] = s.Version(ctx)
			}
			return versions
		},
	}
}

// target measures the URL, once it has answered.
func (c *benchHTTP) target(ctx context.Context) (benchPart, error) {
	o := httpbench.TargetOptions{
		URL: c.URL, Closed: c.Loop == "closed", Rate: c.Rate, Duration: c.Duration,
		Requests: c.Requests * c.Rounds, Clients: c.Clients,
	}
	if err := o.Check(ctx); err != nil {
		return benchPart{}, err
	}
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		p(0, 1, c.URL)
		return httpbench.RunTarget(ctx, o)
	}}, nil
}
