package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/replay"
)

type replayCmd struct {
	limitFlags

	Output string `short:"o" enum:"text,json" default:"text" help:"Format of the report: text or json."`
	Top    int    `default:"20" help:"Clients to show, those shed most first. JSON has them all."`
	Log    string `arg:"" help:"Access log of nginx or Apache in common or combined format, plain or gzip; - reads stdin."`
}

// interruptGrace is time enough to take the progress bar off the terminal.
const interruptGrace = 200 * time.Millisecond

// Run implements the command.
func (c *replayCmd) Run(ctx context.Context, sys *system) error {
	if c.Config == "-" && c.Log == "-" {
		return usageError{errors.New("-c - and the log - are both stdin; name a file for one of them")}
	}
	cfg, err := c.load(config.Flags{}, sys)
	if err != nil {
		return err
	}
	if c.Top < 0 {
		return usageError{fmt.Errorf("--top %d: want 0 or more", c.Top)}
	}
	var report *replay.Report
	err = signalled(ctx, signalHooks{grace: interruptGrace}, func(ctx context.Context) error {
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

func (c *replayCmd) replay(ctx context.Context, cfg *config.Config, sys *system) (*replay.Report, error) {
	log, size, err := c.open(sys)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	bar := newProgress(sys.stderr)
	defer bar.clear()
	report, err := replay.Run(ctx, bar.reading(log, size), replay.Config{
		Limiter: cfg.Limiter(), Policy: cfg.Policy,
		Stream: size < 0,
		Judged: bar.judged,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Log, err)
	}
	return report, nil
}

// open returns the log and its size, -1 for a stream.
func (c *replayCmd) open(sys *system) (log io.ReadCloser, size int64, err error) {
	if c.Log == "-" {
		return io.NopCloser(sys.stdin), -1, nil
	}
	f, err := os.Open(c.Log)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		f.Close()
		return nil, 0, err
	case st.IsDir():
		f.Close()
		return nil, 0, fmt.Errorf("%s: is a directory; name a log in it", c.Log)
	case !st.Mode().IsRegular():
		return f, -1, nil
	}
	return f, st.Size(), nil
}
