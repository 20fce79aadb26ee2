package main

import (
	_ "embed"
	"io"

	"github.com/fastlimit/fastlimit/internal/cli"
)

// startConfig is the file that serve --init-config prints. fastlimit.example.yaml has every setting; this
// one has those that a first user changes.
//
//go:embed start.yaml
var startConfig string

// initConfig prints the file. It writes to no path, so that it cannot overwrite a file, and refuses flags
// that would do nothing.
func (c *serveCmd) initConfig(sys *system) error {
	if *c != (serveCmd{InitConfig: true, LogFormat: "text"}) {
		return cli.Usagef("--init-config takes no other flags; write fastlimit serve --init-config > fastlimit.yaml")
	}
	_, err := io.WriteString(sys.stdout, startConfig)
	return err
}
