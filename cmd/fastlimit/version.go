package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(sys *system) error {
	_, err := fmt.Fprintln(sys.stdout, versionText())
	return err
}

// versionText is what a bug report should quote: the commit, and whether the source was
// that of the commit.
func versionText() string {
	b := version()
	return fmt.Sprintf("fastlimit %s\ncommit %s\n%s %s/%s", b.version, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// build tells what this binary was made from, as the go command recorded it. No linker
// flags are needed: go install records the version, go build in a clone the commit.
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
			b.commit += " with uncommitted changes"
		}
	}
	return b
}
