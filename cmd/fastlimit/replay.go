package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/replay"
)

// replayCmd reads all files before it judges: logs of several servers, and rotated
// ones, have to be put in order first. A pipe is put in order two minutes at a time.
type replayCmd struct {
	limitFlags

	Output string `short:"o" enum:"text,json" default:"text" help:"Report format: text or json."`
	Top    int    `default:"20" help:"Number of clients to show, the most denied first. JSON lists all of them."`

	logFlags
}

// interruptGrace is enough time to remove the progress bar from the terminal. Without a
// limit, a read from a pipe that sends nothing would hold up the interrupt.
const interruptGrace = 200 * time.Millisecond

// Run implements the command.
func (c *replayCmd) Run(ctx context.Context, sys *system) error {
	// Stdin can be read once only.
	if slices.Contains(c.Log, "-") && c.Config == "-" {
		return cli.Usage(errors.New("-c - and the log - both read stdin; name a file for one of them"))
	}
	if err := c.checkStdin("replay"); err != nil {
		return err
	}
	cfg, err := c.load(config.Flags{}, sys)
	if err != nil {
		return err
	}
	// Everything about flags is checked before a log is opened: reading may take
	// minutes.
	if c.Top < 0 {
		return cli.Usagef("--top %d: want 0 or more", c.Top)
	}
	if err := c.checkFields(); err != nil {
		return err
	}
	if c.Config == "" && c.Rate == "" {
		limit := cfg.Policy.Rules[0].Limit
		fmt.Fprintf(sys.stderr, "without --config and --rate, the default applies: %v with burst %d per client address\n", limit.Rate, limit.Burst)
	}
	// The report is written outside of Signalled: once it is complete, an interrupt
	// must not cut it in half without an error.
	var report *replay.Report
	err = cli.Signalled(ctx, cli.SignalHooks{Grace: interruptGrace}, func(ctx context.Context) error {
		report, err = c.replay(ctx, cfg, sys)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(sys.stderr, "warning: %s\n", w)
	}
	if c.Output == "json" {
		return json.NewEncoder(sys.stdout).Encode(report)
	}
	return report.WriteText(sys.stdout, c.Top)
}

// replay judges the logs, with a progress bar if stderr is a terminal.
func (c *replayCmd) replay(ctx context.Context, cfg *config.Config, sys *system) (*replay.Report, error) {
	var report *replay.Report
	err := c.read(sys, "replay", "judging", func(logs []replay.Log, rc replay.ReadConfig) (err error) {
		report, err = replay.Run(ctx, logs, replay.Config{Limiter: cfg.Limiter(), Policy: cfg.Policy, ReadConfig: rc})
		return err
	})
	return report, err
}
