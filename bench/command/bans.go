package command

import (
	"context"

	"github.com/fastlimit/fastlimit/bench/banbench"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// bansCmd measures what a flood costs who shuts its senders out.
type bansCmd struct{ banbench.Options }

// Run implements the command, in namespaces.
func (c *bansCmd) Run(ctx context.Context, sys *system, b *commands) error {
	if err := c.Check(); err != nil {
		return cli.Usage(err)
	}
	var done bool
	err := cli.Signalled(ctx, cli.SignalHooks{Grace: grace}, func(context.Context) (err error) {
		done, err = banbench.Again()
		return err
	})
	if done || err != nil {
		return err
	}
	p := newPart(&c.Options, &c.Progress, banbench.Run)
	p.versions = c.Versions
	return b.measureProduct(ctx, sys, &c.Fastlimit, p)
}
