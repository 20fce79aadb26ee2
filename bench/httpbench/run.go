package httpbench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

	Conns     []int    `placeholder:"N" help:"Connections of the closed loops, for example 1,32,1000,5000. Default: as many as clients."`
	Headers   []string `default:"host" placeholder:"NAME" help:"Headers of the requests: host (no other), browser (10 as a browser sends them), forwarded (those of nginx auth_request)."`
	Reconnect bool     `help:"Measure one connection for each request too, 500 new ones at once, and how long another client waits in a flood of them."`
	Syscalls  bool     `help:"Count the system calls for each request, in a run of its own."`
	Idle      int      `placeholder:"N" help:"Measure the memory of so many idle connections too, for example 10000."`
	Admin     bool     `help:"Measure how long fastlimit's address for operators takes to answer under a flood."`
	NoFlood   bool     `help:"Leave the flood of many clients out."`
	noOpen    bool     // leave out the open loops
	atRest    time.Duration
}

// warmup of every run is not measured: connections and caches, and the clients' way
// over their limit.
const warmup = 50 * time.Millisecond

func (o Options) withDefaults() Options {
	o.Rule = o.Rule.WithDefaults()
	return defaults.Of(o)
}

// Check reports what would keep [Run] from measuring: programs and cores that
// are missing.
func (o Options) Check() error {
	o = o.withDefaults()
	for _, s := range o.shapes() {
		if _, ok := heads[s.head]; !ok || s.conns < 1 || s.conns > 50_000 {
			return fmt.Errorf("bench: %d connections with headers %q: want 1 to 50000, with host, browser or forwarded", s.conns, s.head)
		}
	}
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

// cores are those that servers get, and those of a generator.
type cores struct{ server, load []int }

// apart calls f with a folder for the files of servers, the core to run them on,
// which is the first, and the core of generators, the last. This process keeps off
// the first meanwhile.
func apart(f func(dir string, c cores) error) (err error) {
	all, err := twoCores()
	if err != nil {
		return err
	}
	if err := proc.PinSelf(all[1:]); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proc.PinSelf(all)) }()
	dir, err := os.MkdirTemp("", "fastlimit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return f(dir, cores{all[:1], all[len(all)-1:]})
}

// Run measures the servers. The calling process is moved to all cores but the
// first, which the servers get. The results are valid beside an error, for what
// was done until then.
func Run(ctx context.Context, o Options) (results []report.Result, err error) {
	o = o.withDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	return o.run(ctx, o.phases())
}

func (o Options) run(ctx context.Context, phases []phase) (results []report.Result, err error) {
	err = apart(func(dir string, c cores) error {
		for i, p := range phases {
			tell := func(what string) { o.Progress.Tell(i, len(phases), "%s", what) }
			tell(p.name)
			more, err := o.phase(ctx, p, filepath.Join(dir, strconv.Itoa(i)), c, tell)
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
// begins with the counters, or the connections, of the last one.
type phase struct {
	name string
	rule oracle.Rule // of the servers
	// status is that of all answers, for the bare server. 0: answers differ, and it
	// is left out.
	status    int
	forwarded bool           // servers that can are told to believe the headers
	servers   []Server       // nil: those of the options
	app       *time.Duration // what stands behind the servers takes so long; nil: nothing does
	run       func(ctx context.Context, all []*running, c cores) ([]report.Result, error)
}

// phases are all that is to be measured, in the order of the report.
func (o Options) phases() (all []phase) {
	for _, s := range o.shapes() {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			// Each connection is a client of its own, or one client has them all: as
			// many of them as fastlimit allows to one by default.
			p := phase{name: s.name("all allowed", o.Clients), rule: generousRule, status: status, forwarded: s.head == "forwarded"}
			c := s.load(s.conns)
			if status != http.StatusOK {
				p.name, p.rule = s.name("one denied hot key", o.Clients), o.Rule
				c.Sources = (s.conns + 999) / 1000
			}
			p.run = func(ctx context.Context, all []*running, on cores) ([]report.Result, error) {
				return o.closed(ctx, all, p, c, on.load)
			}
			all = append(all, p)
		}
	}
	if o.Reconnect {
		all = append(all, o.crowds()...)
	}
	if o.Idle > 0 {
		all = append(all, phase{name: "idle connections", rule: generousRule, status: http.StatusOK, run: o.idle})
	}
	if o.Admin {
		all = append(all, phase{name: "operator during a flood", rule: o.Rule, status: http.StatusTooManyRequests, run: o.operator})
	}
	if !o.NoFlood {
		all = append(all, phase{name: "flood", rule: o.Rule, run: o.flood})
	}
	return all
}

// generousRule is one that no client of a closed loop exceeds.
var generousRule = oracle.Rule{Rate: fastlimit.Rate{N: 1_000_000, Per: time.Second}, Burst: 2_000_000}

// running is a server during a phase.
type running struct {
	server Server
	child  *proc.Child
	target load.Target
	admin  string // address for operators, if the server has one
	app    *app   // behind it, if anything is
}

// phase starts all servers, each with its files in a folder of its own, and lets them
// answer once: a server that cannot admit its first request is not configured as its
// rule says. The first one gives the bare server its answer.
func (o Options) phase(ctx context.Context, p phase, dir string, c cores, tell func(string)) ([]report.Result, error) {
	var all []*running
	defer func() { stopAll(all) }()
	at := site{rule: p.rule, cores: c.server, maxConns: o.most(), forwarded: p.forwarded, status: p.status}
	servers := o.Servers
	if p.servers != nil {
		servers = p.servers
	}
	for i, s := range servers {
		if !s.decides && p.status == 0 {
			continue
		}
		at.dir = filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(at.dir, 0o700); err != nil {
			return nil, err
		}
		var behind *app
		if p.app != nil {
			var err error
			if behind, err = startApp(ctx, *p.app, c.load); err != nil {
				return nil, err
			}
			at.app = behind.addr
		}
		r, err := s.start(ctx, at)
		if err != nil {
			if behind != nil {
				behind.child.Stop()
			}
			return nil, err
		}
		r.app = behind
		all = append(all, r)
		if i == 0 {
			at.upstream = r.target.Addr()
		}
		if s.probe != "" {
			tell(fmt.Sprintf("%s, profiles of %s on http://%s/debug/pprof", p.name, s.Name, r.admin))
		}
		if status, err := r.target.Probe(ctx); err != nil || s.decides && status >= 300 {
			return nil, fmt.Errorf("bench: %s answers %d to the first request, %w: want 200", s.Name, status, err)
		}
	}
	return p.run(ctx, all, c)
}

// stopAll waits until each has ended.
func stopAll(all []*running) {
	for _, r := range all {
		r.child.Stop()
		if r.app != nil {
			r.app.child.Stop()
		}
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
