package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(sys *system) error {
	b := version()
	_, err := fmt.Fprintf(sys.stdout, "fastlimit %s\ncommit %s\n%s %s/%s\n", b.version, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// build tells what this binary was made from, as the go command recorded it.
type build struct{ version, commit string }

func version() build {
	b := build{version: "(devel)", commit: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			b.commit += " and changes"
		}
	}
	return b
}

// versionFlag is --version, which ends the parser as --help does.
type versionFlag bool

// BeforeReset implements the hook of the parser.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	if err := (versionCmd{}).Run(&system{stdout: k.Stdout}); err != nil {
		return err
	}
	k.Exit(0)
	return nil
}
