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

type validateCmd struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"Configuration file, or - for stdin."`
}

// Run implements the command.
func (c *validateCmd) Run(sys *system) error {
	cfg, err := loadConfig(c.Config, sys)
	if err != nil {
		return err
	}
	plan, err := fastlimit.NewPlan(cfg.Limiter())
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(sys.stdout, config.Describe(cfg, plan))
	for _, w := range config.Warnings(cfg, plan) {
		_, err = fmt.Fprintf(sys.stdout, "warning: %s\n", w)
	}
	return err
}
