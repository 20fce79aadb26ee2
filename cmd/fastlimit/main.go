// Command fastlimit denies clients that exceed their limit: live, as a decision
// service for reverse proxies (serve), or as a simulation over access logs (replay).
//
// This package reads flags, files and signals and wires the parts together;
// what they do is in the packages below. Exit codes: 0 done, 1 failure, 2
// wrong usage, 130 interrupted; see package cli.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], &system{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookupEnv: os.LookupEnv,
	}))
}
