package command

import (
	"context"

	"github.com/fastlimit/fastlimit/bench/policybench"
	"github.com/fastlimit/fastlimit/bench/postgresbench"
	"github.com/fastlimit/fastlimit/bench/redisbench"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// Run implements the command.
func (c *postgresCmd) Run(ctx context.Context, sys *system, b *commands) error {
	suspects, err := wholeNumbers("--suspects", []float64{c.Suspects}, 1e8)
	if err != nil {
		return err
	}
	if c.Duration < 0 {
		return cli.Usagef("--duration %v: want more than 0", c.Duration)
	}
	o := postgresbench.Options{Duration: c.Duration, Suspects: int(suspects[0])}
	if err := o.Check(); err != nil {
		return err
	}
	return b.measure(ctx, sys, postgresPart(o))
}

type overridesCmd struct{ policybench.Options }

// Run implements the command.
func (c *overridesCmd) Run(ctx context.Context, sys *system, b *commands) error {
	o := c.Options
	if err := o.Check(); err != nil {
		return cli.Usage(err)
	}
	return b.measure(ctx, sys, newPart(&o, &o.Progress, policybench.Run))
}

func postgresPart(o postgresbench.Options) part {
	p := newPart(&o, &o.Progress, postgresbench.Run)
	p.versions = func(ctx context.Context) map[string]string { return map[string]string{"PostgreSQL": o.Version(ctx)} }
	return p
}

func redisPart(o redisbench.Options) part {
	p := newPart(&o, &o.Progress, redisbench.Run)
	p.versions = func(ctx context.Context) map[string]string { return map[string]string{"Redis": o.Version(ctx)} }
	return p
}
