package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/field"
	"github.com/fastlimit/fastlimit/internal/replay"
	"github.com/fastlimit/fastlimit/internal/suggest"
	"github.com/fastlimit/fastlimit/policy"
)

// suggestCmd prints a configuration file: the figures are comments, so its output can be
// redirected into one.
type suggestCmd struct {
	Spare  string   `default:"99.9%" placeholder:"99.9%" help:"Share of the clients that a suggested limit must never deny, 50% to 100%. Clients that look like attacks do not count. Default: 99.9%."`
	Key    []string `sep:"none" placeholder:"KEY" help:"What identifies a client: ip, ip/24/48 (prefix lengths for IPv4 and IPv6), header:X-Api-Key, cookie:sid, method, host, path, global, or several with commas. Repeat it for several suggestions. Default: ip."`
	Path   []string `sep:"none" placeholder:"PATTERN" help:"Also suggest limits for only the requests with these paths, such as /login or /api/*. Repeat it for several groups."`
	Output string   `short:"o" enum:"text,json" default:"text" help:"Report format: text, which is a configuration file with the figures as comments, or json."`
	HTML   string   `name:"html" placeholder:"FILE" help:"Also write a page with the curves to this file."`
	Memory string   `default:"1GiB" placeholder:"1GiB" help:"Memory for the requests of all clients, and as much again for sorting lines. If it does not suffice, a sample of the clients is used. Default: 1GiB."`

	logFlags
}

// leastSuggestMemory has room for a sample of clients.
const leastSuggestMemory = 1 << 20

// Run implements the command.
func (c *suggestCmd) Run(ctx context.Context, sys *system) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	// The report is written outside of Signalled, as by replay.
	var report *suggest.Report
	err = cli.Signalled(ctx, cli.SignalHooks{Grace: interruptGrace}, func(ctx context.Context) (err error) {
		report, err = c.report(ctx, sys, cfg)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		fmt.Fprintf(sys.stderr, "warning: %s\n", w)
	}
	if c.HTML != "" {
		if err := c.writePage(report); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return json.NewEncoder(sys.stdout).Encode(report)
	}
	return report.WriteText(sys.stdout)
}

// report reads the logs, and once more if it shows only then which rules they call for.
func (c *suggestCmd) report(ctx context.Context, sys *system, cfg *suggest.Config) (report *suggest.Report, err error) {
	run := func(logs []replay.Log, rc replay.ReadConfig) (err error) {
		cfg.ReadConfig = rc
		cfg.Budget = cfg.Memory
		report, err = suggest.Run(ctx, logs, *cfg)
		return err
	}
	if err := c.read(sys, "suggest", "sorting", run); err != nil {
		return nil, err
	}
	if !report.Extend(cfg) {
		return report, nil
	}
	if cfg.Stream {
		report.Warnings = append(report.Warnings, "a few clients send most of the load; to get rules that limit them, name files instead of stdin, since the logs must be read twice")
		return report, nil
	}
	first := report
	if err := c.read(sys, "suggest", "sorting", run); err != nil && ctx.Err() == nil {
		first.Warnings = append(first.Warnings, fmt.Sprintf("a few clients send most of the load, but there are no rules that limit them, as reading the logs a second time failed: %v", err))
		return first, nil
	}
	return report, ctx.Err()
}

// config checks all flags, before a log is opened: reading may take minutes.
func (c *suggestCmd) config() (*suggest.Config, error) {
	if err := errors.Join(c.checkStdin("suggest"), c.checkFields(), c.checkPage()); err != nil {
		return nil, cli.Usage(err)
	}
	cfg := new(suggest.Config)
	var errs []error
	var err error
	if cfg.Spare, err = suggest.ParsePercent(c.Spare); err != nil {
		errs = append(errs, fmt.Errorf("--spare: %w", err))
	}
	if cfg.Memory, err = config.ParseSize(c.Memory, leastSuggestMemory, math.MaxInt64/2); err != nil {
		errs = append(errs, fmt.Errorf("--memory: %w", err))
	}
	if cfg.Keys, err = c.keys(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, cli.Usage(errors.Join(errs...))
	}
	return cfg, nil
}

// keys is each key for all requests, then each for every group of paths.
func (c *suggestCmd) keys() (all []policy.RuleSpec, err error) {
	keys := c.Key
	if len(keys) == 0 {
		keys = []string{"ip"}
	}
	var errs []error
	for _, pattern := range append([]string{""}, c.Path...) {
		if pattern != "" {
			for _, e := range field.All(policy.CheckPathPattern(pattern)) {
				errs = append(errs, fmt.Errorf("--path %s: %s; %s", pattern, e.Problem, e.Fix))
			}
		}
		for _, text := range keys {
			spec, err := config.ParseKey(text)
			if pattern == "" && err != nil {
				errs = append(errs, fmt.Errorf("--key %s: %w", text, err))
			}
			if pattern != "" {
				spec.Match.Paths = []string{pattern}
			}
			all = append(all, spec)
		}
	}
	return all, errors.Join(errs...)
}

// checkPage refuses a page that would overwrite a log, or that has no place.
func (c *suggestCmd) checkPage() error {
	if c.HTML == "" {
		return nil
	}
	if st, err := os.Stat(filepath.Dir(c.HTML)); err != nil || !st.IsDir() {
		return fmt.Errorf("--html %s: there is no such folder; check the path", c.HTML)
	}
	page, err := os.Stat(c.HTML)
	if err == nil && page.IsDir() {
		return fmt.Errorf("--html %s: is a folder; name a file in it", c.HTML)
	}
	for _, name := range c.Log {
		if log, logErr := os.Stat(name); err == nil && logErr == nil && os.SameFile(page, log) {
			return fmt.Errorf("--html %s: is one of the logs, which it would overwrite; name another file", c.HTML)
		}
	}
	return nil
}

func (c *suggestCmd) writePage(report *suggest.Report) error {
	f, err := os.Create(c.HTML)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(f), f.Close())
}
