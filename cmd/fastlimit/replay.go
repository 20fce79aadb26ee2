package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

	Output string            `short:"o" enum:"text,json" default:"text" help:"Report format: text or json."`
	Top    int               `default:"20" help:"Number of clients to show, those denied most first. JSON lists all of them."`
	Fields map[string]string `mapsep:"," placeholder:"NAME=FIELD" help:"In JSON logs, the fields that hold time, client, method, target, host, request, header:NAME and cookie:NAME; dots reach nested fields. For example time=time_iso8601,client=remote_addr. Default: Caddy's fields."`

	Log []string `arg:"" help:"Access logs of one or more servers, including rotated ones, in any order. Common or combined format (nginx, Apache) or JSON lines (Caddy; others with --fields), plain or gzip; - is stdin."`
}

// interruptGrace is enough time to remove the progress bar from the terminal. Without a
// limit, a read from a pipe that sends nothing would hold up the interrupt.
const interruptGrace = 200 * time.Millisecond

// Run implements the command.
func (c *replayCmd) Run(ctx context.Context, sys *system) error {
	switch stdin := slices.Contains(c.Log, "-"); {
	// Stdin can be read once only.
	case stdin && c.Config == "-":
		return cli.Usage(errors.New("-c - and the log - are both stdin; name a file for one of them"))
	case stdin && len(c.Log) > 1:
		return cli.Usage(errors.New("- cannot be combined with other logs; name files, or pipe all of them: cat LOG… | fastlimit replay -"))
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
	if err := replay.FieldMap(c.Fields).Check(); err != nil {
		return cli.Usagef("--fields: %w", err)
	}
	if c.Config == "" && c.Rate == "" {
		limit := cfg.Policy.Rules[0].Limit
		fmt.Fprintf(sys.stderr, "no --config and no --rate: judging by the default, %v with burst %d for each address\n", limit.Rate, limit.Burst)
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
	logs, size, err := c.open(sys)
	defer func() {
		for _, l := range logs {
			l.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	bar := cli.NewProgress(sys.stderr)
	defer bar.Clear()
	bar.Bytes(size)
	var all []replay.Log
	for i, l := range logs {
		name := c.Log[i]
		if name == "-" {
			name = "<stdin>"
		}
		all = append(all, replay.Log{Name: name, Reader: bar.Reading(l)})
	}
	return replay.Run(ctx, all, replay.Config{
		Limiter: cfg.Limiter(), Policy: cfg.Policy,
		ReadConfig: replay.ReadConfig{
			Stream: size < 0,
			Fields: c.Fields,
			Judged: func(done, all int) { bar.Step(done, all, "judging") },
		},
	})
}

// open opens the logs and returns their total size, -1 if one is a stream. With an
// error it also returns those that it has opened. It opens all of them before any is
// read, so that a mistyped name at the end of the list shows at once.
func (c *replayCmd) open(sys *system) (logs []io.ReadCloser, size int64, err error) {
	if c.Log[0] == "-" {
		return []io.ReadCloser{io.NopCloser(sys.stdin)}, -1, nil
	}
	var seen []os.FileInfo // compared as files: links and relative paths name one twice too
	for _, name := range c.Log {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return logs, 0, fmt.Errorf("%s: no such file; check the path", name)
		}
		if err != nil {
			return logs, 0, err
		}
		logs = append(logs, f)
		st, err := f.Stat()
		switch {
		case err != nil:
			return logs, 0, err
		case st.IsDir():
			return logs, 0, fmt.Errorf("%s: is a directory; name the logs in it", name)
		case slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(st, other) }):
			return logs, 0, fmt.Errorf("%s: is named twice, so its requests would count twice; remove one of the two", name)
		case !st.Mode().IsRegular():
			size = -1
		case size >= 0:
			size += st.Size()
		}
		seen = append(seen, st)
	}
	return logs, size, nil
}
