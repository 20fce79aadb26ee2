package main

import (
	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
)

// limitFlags are the settings that serve and replay share.
type limitFlags struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration file, or - for stdin."`
	Rate   string `placeholder:"100/s" help:"Limit per client address: N/s, N/m, N/h, N/d, or a multiple such as N/15m. Cannot be combined with --config."`
	Burst  string `placeholder:"200" help:"Requests that an idle client may make at once. Cannot be combined with --config."`
}

// load reads the file, if there is one, and puts the flags over it. Mistakes in the
// file are failures; those in flags are wrong usage, which has an exit code of its own.
func (f *limitFlags) load(flags config.Flags, sys *system) (*config.Config, error) {
	flags.Rate, flags.Burst = f.Rate, f.Burst
	cfg := config.Default()
	if f.Config != "" {
		var err error
		if cfg, err = loadConfig(f.Config, sys); err != nil {
			return nil, err
		}
	}
	if err := cfg.Override(flags, f.Config != ""); err != nil {
		return nil, cli.Usage(err)
	}
	return cfg, nil
}

// loadConfig reads the file at path, or stdin for "-". Settings that name files are
// relative to the working directory in both cases.
func loadConfig(path string, sys *system) (*config.Config, error) {
	if path == "-" {
		return config.LoadFrom("<stdin>", sys.stdin, sys.lookupEnv)
	}
	return config.Load(path, sys.lookupEnv)
}
