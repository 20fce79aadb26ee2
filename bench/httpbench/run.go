package httpbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/defaults"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/report"
)

// Options configure [Run]. Zero fields mean defaults.
type Options struct {
	Servers []Server    `kong:"-"`
	Rule    oracle.Rule `kong:"-"` // of every server; see [oracle.Rule] for the default
	// Rate leaves a core half idle by default, and Duration is two windows of the
	// default rule.
	Rate     float64         `default:"10000" help:"Requests per second of an open loop."`
	Duration time.Duration   `default:"4s" help:"Of an open loop."`
	Requests int             `default:"20000" help:"Requests of a closed loop, in each round."`
	Rounds   int             `default:"7" help:"Rounds of a closed loop."`
	Clients  int             `default:"32" help:"Clients, each with a connection; of this machine each has a loopback address of its own."`
	Progress report.Progress `kong:"-"`
}

func (o Options) withDefaults() Options {
	o.Rule = o.Rule.WithDefaults()
	return defaults.Of(o)
}

// Check reports what would keep [Run] from measuring: programs and cores that
// are missing.
func (o Options) Check() error {
	_, err := twoCores()
	errs := []error{err}
	for _, s := range o.Servers {
		_, err := s.Find()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// twoCores are the cores of this process, two or more.
func twoCores() ([]int, error) {
	cores, err := proc.Cores()
	if err == nil && len(cores) < 2 {
		err = errors.New("bench: this process may use 1 core: over HTTP 2 are needed, for the server and for the load")
	}
	return cores, err
}

// apart calls f with a folder for the files of servers and the core to run them
// on: the first. This process keeps to the others meanwhile.
func apart(f func(dir string, cores []int) error) (err error) {
	cores, err := twoCores()
	if err != nil {
		return err
	}
	if err := proc.PinSelf(cores[1:]); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proc.PinSelf(cores)) }()
	dir, err := os.MkdirTemp("", "fastlimit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return f(dir, cores[:1])
}

// Run measures the servers. The calling process is moved to all cores but the
// first, which the servers get. The results are valid beside an error, for what
// was done until then.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	o = o.withDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	err = apart(func(dir string, cores []int) error {
		for i, p := range phases {
			o.Progress.Tell(i, len(phases), "%s", p.name)
			more, err := o.phase(ctx, p, filepath.Join(dir, strconv.Itoa(i)), cores)
			results = append(results, more...)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		o.Progress.Tell(len(phases), len(phases), "done")
		return nil
	})
	return results, err
}

// phase is one kind of load. All servers are started anew for each, so that none
// begins with the counters of the last one.
type phase struct {
	name string
	// rule returns the rule of the servers, given the configured one.
	rule func(oracle.Rule) oracle.Rule
	run  func(Options, context.Context, []*running) ([]report.Result, error)
}

var phases = []phase{
	{"all allowed", generous, func(o Options, ctx context.Context, all []*running) ([]report.Result, error) {
		return o.closed(ctx, all, "all allowed", load.Loopback(o.Clients))
	}},
	{"one denied hot key", sameRule, func(o Options, ctx context.Context, all []*running) ([]report.Result, error) {
		return o.closed(ctx, all, "one denied hot key", load.Loopback(1))
	}},
	{"flood", sameRule, Options.flood},
}

func sameRule(r oracle.Rule) oracle.Rule { return r }

// generousRule is one that no client of a closed loop exceeds.
var generousRule = oracle.Rule{Rate: fastlimit.Rate{N: 1_000_000, Per: time.Second}, Burst: 2_000_000}

func generous(oracle.Rule) oracle.Rule { return generousRule }

// running is a server during a phase.
type running struct {
	server Server
	child  *proc.Child
	target load.Target
}

func (o Options) phase(ctx context.Context, p phase, dir string, cores []int) ([]report.Result, error) {
	var all []*running
	defer func() { stopAll(all) }()
	for i, s := range o.Servers {
		home := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(home, 0o700); err != nil {
			return nil, err
		}
		r, err := s.run(ctx, p.rule(o.Rule), home, cores)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		if status, err := r.target.Probe(ctx); err != nil || status >= 300 {
			return nil, fmt.Errorf("bench: %s answers %d to the first request, %w: want 200", s.Name, status, err)
		}
	}
	return p.run(o, ctx, all)
}

// run starts the server and returns it with its URL as a target.
func (s Server) run(ctx context.Context, rule oracle.Rule, dir string, cores []int) (*running, error) {
	child, addr, err := s.start(ctx, rule, dir, cores)
	if err != nil {
		return nil, err
	}
	target, err := load.NewTarget("http://"+addr+"/", 0)
	return &running{s, child, target}, err
}

func stopAll(all []*running) {
	for _, r := range all {
		r.child.Stop()
	}
}

// result has the fields that all phases fill in the same way.
func (r *running) result(workload string) report.Result {
	res := report.Result{Group: "http", Workload: workload, Limiter: r.server.Name, Setup: r.server.Setup, Cores: 1}
	if rss, err := r.child.RSS(); err == nil {
		res.RSSBytes = &rss
	}
	return res
}
