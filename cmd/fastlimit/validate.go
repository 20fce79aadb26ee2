package main

import (
	"fmt"

	"github.com/fastlimit/fastlimit"
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
	Config  string `short:"c" xor:"what" required:"" placeholder:"FILE" help:"Configuration file, or - for stdin."`
	RLS     string `name:"rls" xor:"what" required:"" placeholder:"DIR" help:"Instead, a folder of envoyproxy/ratelimit's configuration files. MERGE_DOMAIN_CONFIG and RUNTIME_IGNOREDOTFILES of the environment count."`
	Verbose bool   `short:"v" help:"Also show notes: effects of settings that are not mistakes."`
}

// Run implements the command.
func (c *validateCmd) Run(sys *system) error {
	if c.RLS != "" {
		return c.validateRLS(sys)
	}
	cfg, err := loadConfig(c.Config, sys)
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
