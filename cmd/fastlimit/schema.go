package main

import "github.com/fastlimit/fastlimit/internal/config"

type schemaCmd struct{}

// Run implements the command.
func (schemaCmd) Run(sys *system) error {
	_, err := sys.stdout.Write(config.Schema())
	return err
}
