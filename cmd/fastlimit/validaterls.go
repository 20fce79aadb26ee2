package main

import (
	"fmt"
	"strconv"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/rls/files"
)

// validateRLS checks a folder of descriptors, as envoyproxy/ratelimit would read it.
func (c *validateCmd) validateRLS(sys *system) error {
	merge, err := boolVariable(sys, "MERGE_DOMAIN_CONFIG")
	if err != nil {
		return err
	}
	ignoreDots, err := boolVariable(sys, "RUNTIME_IGNOREDOTFILES")
	if err != nil {
		return err
	}
	limits, warnings, err := files.Folder{Dir: c.RLS, DotFiles: !ignoreDots}.Load(merge)
	for _, w := range warnings {
		fmt.Fprintf(sys.stdout, "warning: %v\n", w)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(sys.stdout, "domains: %d\nlimits: %d\n", limits.Domains(), limits.Len())
	if limits.Len() == 0 {
		fmt.Fprintf(sys.stdout, "warning: %s: no limits, so that every request is admitted\n", c.RLS)
	}
	if c.Verbose {
		fmt.Fprint(sys.stdout, limits)
	}
	return nil
}

// boolVariable reads a variable as envoyproxy/ratelimit does.
func boolVariable(sys *system, name string) (bool, error) {
	text, set := sys.lookupEnv(name)
	if !set {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, cli.Usagef("%s=%q: want true or false", name, text)
	}
	return v, nil
}
