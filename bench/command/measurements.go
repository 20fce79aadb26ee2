package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bench/clusterbench"
	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/oracle"
	"github.com/fastlimit/fastlimit/bench/redisbench"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/bench/workload"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// The commands: flags of their own, beside those of what they call. Where a flag
// has another form than the option that it sets (1e6 for a number of keys, GiB for
// bytes), the option is hidden from kong and the flag stands here.
type (
	localCmd struct {
		inproc.LocalOptions

		Redis string `placeholder:"URL" help:"Measure limiters with their buckets in this Redis too; its database may be flushed: redis://host:port/db."`
	}
	accuracyCmd struct {
		inproc.AccuracyOptions

		Workload []string `placeholder:"NAME" help:"Workloads, for example zipf-1.1. Default: all."`
		Redis    string   `placeholder:"URL" help:"Measure limiters with their buckets in this Redis too, in real time; its database may be flushed: redis://host:port/db."`
	}
	memoryCmd struct {
		inproc.MemoryOptions

		Keys []float64 `default:"1e6,1e7" placeholder:"N" help:"Sizes of the floods, in clients: 1e6,1e7,1e8."`
		Cap  float64   `placeholder:"GIB" help:"Resident memory in GiB at which a limiter is stopped. Default: three quarters of what is free."`
	}
	redisCmd struct {
		Server   string        `default:"redis-server" help:"Path of redis-server."`
		Duration time.Duration `placeholder:"4s" help:"Of the flood, of each flood over HTTP (10s), of each fault (1s)."`
		Timeout  time.Duration `default:"5ms" help:"How long a request may wait for Redis while it misbehaves."`
		HTTP     bool          `name:"http" help:"Measure what Redis is asked under a flood over HTTP instead, at 1000/s, 15000/s and full speed, among 100,000 clients that conform."`
		Faults   bool          `help:"Measure how long requests wait while Redis misbehaves instead, in every way that can be made."`
	}
	postgresCmd struct {
		Duration time.Duration `placeholder:"4s" help:"Of the flood."`
		Suspects float64       `default:"1e6" placeholder:"N" help:"Rows of the table whose size is measured."`
	}
	clusterCmd struct {
		clusterbench.Options

		Keys []float64 `default:"1e3,1e5,1e6" placeholder:"N" help:"Numbers of active clients."`
	}
	allCmd struct{}
)

// Run implements the command.
func (c *localCmd) Run(ctx context.Context, sys *system, b *commands) error {
	return b.measureOne(ctx, sys)(b.local(c))
}

// Run implements the command.
func (c *accuracyCmd) Run(ctx context.Context, sys *system, b *commands) error {
	return b.measureOne(ctx, sys)(b.accuracy(c))
}

// Run implements the command.
func (c *memoryCmd) Run(ctx context.Context, sys *system, b *commands) error {
	return b.measureOne(ctx, sys)(b.memory(c))
}

// Run implements the command.
func (c *redisCmd) Run(ctx context.Context, sys *system, b *commands) error {
	o := redisbench.Options{Path: c.Server, Duration: c.Duration}
	if err := o.Check(); err != nil {
		return err
	}
	if c.Duration < 0 || c.Timeout <= 0 {
		return cli.Usagef("--duration %v --timeout %v: want more than 0", c.Duration, c.Timeout)
	}
	var parts []part
	if c.HTTP {
		binary, remove, err := b.product(ctx)
		if err != nil {
			return err
		}
		defer remove()
		h := redisbench.HTTPOptions{Redis: c.Server, Fastlimit: binary, Duration: c.Duration}
		parts = append(parts, newPart(&h, &h.Progress, redisbench.RunHTTP))
	}
	if c.Faults {
		f := redisbench.FaultOptions{Redis: c.Server, Duration: c.Duration, Timeout: c.Timeout}
		parts = append(parts, newPart(&f, &f.Progress, redisbench.RunFaults))
	}
	for i := range parts {
		parts[i].versions = redisPart(o).versions
	}
	if parts == nil {
		parts = append(parts, redisPart(o))
	}
	return b.measure(ctx, sys, parts...)
}

// Run implements the command.
func (c *clusterCmd) Run(ctx context.Context, sys *system, b *commands) error {
	return b.measureOne(ctx, sys)(b.cluster(c))
}

// Run implements the command. Programs that are not installed are skipped with a
// message.
func (allCmd) Run(ctx context.Context, sys *system, b *commands) error {
	var parts []part
	var errs error
	add := func(p part, err error) { parts, errs = append(parts, p), errors.Join(errs, err) }
	add(b.local(&localCmd{LocalOptions: inproc.LocalOptions{Rounds: 5}}))
	add(b.accuracy(&accuracyCmd{AccuracyOptions: inproc.AccuracyOptions{Requests: 50_000, Duration: 6 * time.Second}}))
	add(b.memory(&memoryCmd{Keys: []float64{1e6}}))
	add(b.cluster(&clusterCmd{Keys: []float64{1e3, 1e6}, Options: clusterbench.Options{Duration: 10 * time.Second}}))
	if errs != nil {
		return errs
	}
	short := new(httpCmd)
	short.Options = httpbench.Options{Rounds: 3, Requests: 10_000, Duration: 3 * time.Second}
	if err := short.find(sys); err != nil {
		return err
	}
	if err := short.Check(); err != nil {
		fmt.Fprintf(sys.stderr, "left out: http: %v\n", err)
	} else {
		remove, err := short.addFastlimit(ctx, b)
		if err != nil {
			return err
		}
		defer remove()
		parts = append(parts, serversPart(&short.Options))
	}
	r := redisbench.Options{Duration: 3 * time.Second, Checks: 10_000, Rounds: 5}
	if err := r.Check(); err != nil {
		fmt.Fprintf(sys.stderr, "left out: redis: %v\n", err)
	} else {
		parts = append(parts, redisPart(r))
	}
	return b.measure(ctx, sys, parts...)
}

// part is one measurement. Results that come with an error are kept.
// Parts of one run share a progress bar and go into one report.
type part struct {
	run func(context.Context, report.Progress) ([]report.Result, error)
	// versions returns the versions of the programs measured; may be nil.
	versions func(context.Context) map[string]string
}

// newPart is a measurement with its options, which tells of its progress.
func newPart[O any](o *O, progress *report.Progress, run func(context.Context, O) ([]report.Result, error)) part {
	return part{run: func(ctx context.Context, p report.Progress) ([]report.Result, error) {
		*progress = p
		return run(ctx, *o)
	}}
}

// options are those that the measurements in process share. Limiters that need a
// Redis are tried first: a wrong URL must not show after minutes.
func (b *commands) options(contenders []inproc.Contender) (o inproc.Options, err error) {
	for _, c := range contenders {
		if c.Remote {
			err = errors.Join(err, tryOut(c))
		}
	}
	if err != nil {
		return o, fmt.Errorf("--redis: %w", err)
	}
	return inproc.Options{Seed: b.Seed, Contenders: contenders}, nil
}

func (b *commands) local(c *localCmd) (part, error) {
	o := c.LocalOptions
	var err error
	o.Options, err = b.options(slices.Insert(b.contenders(c.Redis), 1, inproc.FastlimitClock()))
	return newPart(&o, &o.Progress, inproc.Local), err
}

func (b *commands) accuracy(c *accuracyCmd) (part, error) {
	o := c.AccuracyOptions
	for _, name := range c.Workload {
		w, err := workload.Find(name)
		if err != nil {
			return part{}, cli.Usage(err)
		}
		o.Workloads = append(o.Workloads, w)
	}
	if c.Requests < 1 || c.Duration <= 0 {
		return part{}, cli.Usagef("--requests %d --duration %v: want more than 0", c.Requests, c.Duration)
	}
	var err error
	o.Options, err = b.options(b.contenders(c.Redis))
	return newPart(&o, &o.Progress, inproc.Accuracy), err
}

// tryOut creates a limiter and closes it.
func tryOut(c inproc.Contender) error {
	l, err := c.New(oracle.Rule{Rate: fastlimit.Rate{N: 1, Per: time.Second}, Burst: 1})
	if closer, ok := l.(io.Closer); ok && err == nil {
		err = closer.Close()
	}
	return err
}

func (b *commands) memory(c *memoryCmd) (part, error) {
	keys, err := wholeNumbers("--keys", c.Keys, 1e9)
	if err != nil {
		return part{}, err
	}
	if c.Cap < 0 || c.Patience < 0 {
		return part{}, cli.Usagef("--cap %v --patience %v: want 0 or more", c.Cap, c.Patience)
	}
	o := c.MemoryOptions
	o.Options = inproc.Options{Seed: b.Seed, Contenders: b.contenders("")}
	o.Keys, o.Cap = keys, int64(c.Cap*(1<<30))
	return newPart(&o, &o.Progress, inproc.Memory), nil
}

// wholeNumbers takes 1e6 for a million, which kong does not for integers.
func wholeNumbers(flag string, of []float64, most float64) (keys []int64, err error) {
	for _, k := range of {
		if k < 10 || k > most || k != float64(int64(k)) {
			return nil, cli.Usagef("%s %v: want whole numbers from 10 to %.0e", flag, k, most)
		}
		keys = append(keys, int64(k))
	}
	return keys, nil
}

func (b *commands) cluster(c *clusterCmd) (part, error) {
	keys, err := wholeNumbers("--keys", c.Keys, 1e7)
	if err != nil {
		return part{}, err
	}
	o := c.Options
	o.Keys, o.Seed = keys, b.Seed
	if err := o.Check(); err != nil {
		return part{}, cli.Usage(err)
	}
	return newPart(&o, &o.Progress, clusterbench.Run), nil
}
