package main

import (
	"cmp"
	"fmt"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
)

type schemaCmd struct{}

// Run implements the command.
func (schemaCmd) Run(sys *system) error {
	_, err := sys.stdout.Write(config.Schema())
	return err
}

// validateCmd asks for a file even though serve runs without one: what it would check
// then is the default. Warnings do not change the exit code, as they may be intended.
type validateCmd struct {
	File    string `arg:"" placeholder:"FILE" optional:"" help:"Configuration file, or - for stdin."`
	Config  string `short:"c" xor:"what" placeholder:"FILE" help:"Also names the file, as for serve."`
	RLS     string `name:"rls" xor:"what" placeholder:"DIR" help:"Instead, a folder of envoyproxy/ratelimit's configuration files. MERGE_DOMAIN_CONFIG and RUNTIME_IGNOREDOTFILES of the environment count."`
	Verbose bool   `short:"v" help:"Also show notes: effects of settings that are not mistakes."`
}

// Run implements the command.
func (c *validateCmd) Run(sys *system) error {
	path, err := c.path()
	switch {
	case err != nil:
		return err
	case c.RLS != "":
		return c.validateRLS(sys)
	}
	cfg, err := loadConfig(path, sys)
	if err != nil {
		return err
	}
	// Plan only: New would take the memory, which this machine may not have.
	plan, err := fastlimit.NewPlan(cfg.Limiter())
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(sys.stdout, config.Describe(cfg, plan))
	for _, w := range config.Warnings(cfg, plan) {
		_, err = fmt.Fprintf(sys.stdout, "warning: %s\n", w)
	}
	if c.Verbose {
		for _, n := range config.Notes(cfg, plan) {
			_, err = fmt.Fprintf(sys.stdout, "note: %s\n", n)
		}
	}
	return err
}

// path returns the configuration file, which may be named with or without -c, or twice.
func (c *validateCmd) path() (string, error) {
	path := cmp.Or(c.File, c.Config)
	switch {
	case c.Config != "" && c.Config != path:
		return "", cli.Usagef("two files are given, %s and -c %s; remove one of the two", path, c.Config)
	case c.RLS != "" && path != "":
		return "", cli.Usagef("a file and --rls are given, %s and %s; remove one of the two", path, c.RLS)
	case c.RLS == "" && path == "":
		return "", cli.Usagef("no file is given; write fastlimit validate FILE, or --rls DIR")
	}
	return path, nil
}
