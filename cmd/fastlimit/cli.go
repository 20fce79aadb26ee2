package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// system is what a command touches of the world.
type system struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookupEnv      func(string) (string, bool)
}

type cli struct {
	Serve    serveCmd    `cmd:"" help:"Run the decision service. Defaults: traffic on 127.0.0.1:8080, admin on 127.0.0.1:8081, 100/s per client address."`
	Validate validateCmd `cmd:"" help:"Check a configuration file, show its memory use and limits, and warn about likely mistakes."`
	Replay   replayCmd   `cmd:"" help:"Show which requests in access logs a limit would have denied, and to whom."`
	Top      topCmd      `cmd:"" help:"Show the top clients across all nodes."`
	Bench    benchCmd    `cmd:"" help:"Measure limiters: speed, accuracy, memory, over HTTP and with Redis."`
	Version  versionCmd  `cmd:"" help:"Show version, commit and Go version."`
	Help     helpCmd     `cmd:"" help:"Show this help or that of a command, as in: fastlimit help replay."`

	VersionFlag versionFlag `name:"version" help:"Show version, commit and Go version."`
}

const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// stopped ends the parser once it has printed its help.
type stopped struct{ code int }

// run runs the command that args name and returns the exit code.
func run(ctx context.Context, args []string, sys *system) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			code = r.code
		default:
			panic(r)
		}
	}()
	parsed, err := newParser(sys).Parse(helpArgs(args))
	if err == nil {
		err = checkFlags(parsed)
	}
	if err != nil {
		fmt.Fprintf(sys.stderr, "fastlimit: %v; see fastlimit --help\n", err)
		return exitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return sys.exitCode(parsed.Run(sys))
}

func newParser(sys *system) *kong.Kong {
	k := kong.Must(&cli{},
		kong.Name("fastlimit"),
		kong.Description("A rate limiter for servers under attack."),
		kong.Writers(sys.stdout, sys.stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(code int) { panic(stopped{code}) }),
	)
	k.Model.HelpFlag.Help = "Show this help."
	return k
}

// exitCode prints the error and returns the code for it.
func (sys *system) exitCode(err error) int {
	var usage usageError
	var interrupted interruptedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &interrupted):
		fmt.Fprintf(sys.stderr, "fastlimit: %v\n", err)
		return interrupted.code()
	case errors.As(err, &usage):
		fmt.Fprintf(sys.stderr, "fastlimit: %v\n", err)
		return exitUsage
	}
	fmt.Fprintln(sys.stderr, err)
	return exitFailure
}
