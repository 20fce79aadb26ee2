// Command bench measures fastlimit and the limiters that people would otherwise
// pick: how fast they decide, how right they are and how much memory they take,
// in process, over HTTP, with Redis and in a cluster, in one run on one machine.
// docs/benchmarks.md says what the figures mean.
//
//	go run ./bench all
//
// Each limiter in process is measured in a process of its own, which is this
// program again; what is measured over HTTP is the product's own binary. Exit
// codes are those of package cli.
package main

import (
	"context"
	"io"
	"os"

	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// system is what a command touches of the world.
type system struct{ stdout, stderr io.Writer }

// commands are the flags that all measurements share, and the measurements.
type commands struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Format of the results: text or json."`
	Out    string `placeholder:"FILE" help:"Write the results there instead of stdout."`
	HTML   string `name:"html" placeholder:"FILE" help:"Write a page with tables and plots too."`
	Seed   uint64 `default:"1" help:"Random seed."`
	Binary string `placeholder:"PATH" help:"The fastlimit to measure over HTTP. Default: built from this module."`

	Local    localCmd    `cmd:"" help:"Speed within a process: time and allocations per decision, on 1 to all cores."`
	Accuracy accuracyCmd `cmd:"" help:"False denials, excess and exact checks, against an exact oracle."`
	Memory   memoryCmd   `cmd:"" help:"Memory under floods of distinct clients, and whether a heavy client hidden in one stays limited."`
	HTTP     httpCmd     `cmd:"" name:"http" help:"A limiter over HTTP: the one at URL, or fastlimit beside nginx, HAProxy and others, started here."`
	Redis    redisCmd    `cmd:"" help:"Redis operations per request under a flood, and exact checks per second, on a Redis started here."`
	Cluster  clusterCmd  `cmd:"" help:"What nodes tell each other: bytes for each peer, and what stays untold, by the number of active clients. In memory, in simulated time."`
	All      allCmd      `cmd:"" help:"All of them in short, in under a minute."`
	Report   reportCmd   `cmd:"" help:"Merge JSON reports into one page or table."`
	Help     cli.Help    `cmd:"" help:"Show this help, or that of a command: bench help http."`
}

func main() {
	inproc.RunChild(nil)
	sys := &system{os.Stdout, os.Stderr}
	os.Exit(program(sys).Run(context.Background(), os.Args[1:], sys))
}

func program(sys *system) *cli.Program {
	return &cli.Program{
		Name: "bench", Description: "Measures limiters: speed, accuracy, memory, over HTTP and with Redis.",
		Commands: new(commands), Stdout: sys.stdout, Stderr: sys.stderr,
	}
}
