package command

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/bench/redisbench"
	"github.com/fastlimit/fastlimit/bench/report"
)

type algorithmsCmd struct {
	Rounds int    `default:"11" help:"Turns of each limiter."`
	Cores  []int  `default:"1" placeholder:"N" help:"Numbers of cores to decide on."`
	Server string `default:"redis-server" help:"Path of redis-server. Without one, limiters on Redis are left out."`
	Redis  string `placeholder:"URL" help:"Use this Redis, instead of starting one; its database may be flushed: redis://host:port/db."`
}

// Run implements the command.
func (c *algorithmsCmd) Run(ctx context.Context, sys *system, b *commands) error {
	if c.Redis != "" {
		if _, err := b.options(b.algorithms(c.Redis)); err != nil {
			return err
		}
	} else if _, err := exec.LookPath(c.Server); err != nil {
		fmt.Fprintf(sys.stderr, "left out: limiters on Redis: %v; install redis-server\n", err)
		c.Server = ""
	}
	p := part{run: func(ctx context.Context, progress report.Progress) (results []report.Result, err error) {
		if c.Redis != "" || c.Server == "" {
			return c.measure(ctx, b, progress, c.Redis)
		}
		err = redisbench.WithServer(ctx, c.Server, func(_ *proc.Child, addr string) (err error) {
			url := "redis://" + addr + "/0"
			results, err = c.measure(ctx, b, progress, url, "--redis="+url)
			return err
		})
		return results, err
	}}
	if c.Redis == "" && c.Server != "" {
		p.versions = redisPart(redisbench.Options{Path: c.Server}).versions
	}
	return b.measure(ctx, sys, p)
}

// measure has each limiter decide on one client. Measuring processes are told the
// arguments beside those of this program.
func (c *algorithmsCmd) measure(ctx context.Context, b *commands, progress report.Progress, redis string, args ...string) ([]report.Result, error) {
	results, err := inproc.Local(ctx, inproc.LocalOptions{
		Options:   inproc.Options{Contenders: b.algorithms(redis), Seed: b.Seed, Progress: progress},
		Workloads: []string{"hot-allowed", "hot-denied"}, Cores: c.Cores, Rounds: c.Rounds, ChildArgs: args,
	})
	for i := range results {
		results[i].Group = "algorithms"
	}
	return results, err
}

// algorithms returns fastlimit with each of its algorithms and the other limiters, with those
// on the Redis at the URL, unless that is empty.
func (b *commands) algorithms(redis string) []inproc.Contender {
	all := append(inproc.Algorithms(), inproc.Reference())
	if b.peers != nil {
		all = append(all, b.peers(redis)...)
	}
	if redis != "" {
		all = append(all, redisbench.Algorithms(redis)...)
	}
	return all
}
