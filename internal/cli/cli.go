// Package cli is what the programs of this module have in common on a terminal:
// strict flags, exit codes, signals and progress.
//
// Exit codes: 0 done, 1 failure, 2 wrong usage, 130 interrupted (128 and the
// number of the signal, as shells have it).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
	"github.com/fastlimit/fastlimit/internal/span"
)

// Exit codes.
const (
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130 // 128 + SIGINT
)

// usageError is a mistake on the command line. Its exit code tells scripts that trying
// again is of no use.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as a mistake on the command line.
func Usage(err error) error { return usageError{err} }

// Usagef is [Usage] of an error with a format.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Program is a command line.
type Program struct {
	Name, Description string
	Version           string // what a [kong.VersionFlag] among the commands prints
	Commands          any    // a pointer to what kong fills in
	Stdout, Stderr    io.Writer
}

// stopped ends the parser once it has printed its help. kong calls its exit hook deep in
// Parse and expects it not to return; a panic that [Program.Run] recovers lets tests
// and deferred calls go on where os.Exit would end the process.
type stopped struct{ code int }

// Parser is the parser of the program's command line.
func (p *Program) Parser() *kong.Kong {
	k := kong.Must(p.Commands,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Vars{"version": p.Version},
		kong.Writers(p.Stdout, p.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeSpan)),
		kong.Exit(func(code int) { panic(stopped{code}) }),
	)
	k.Model.HelpFlag.Help = "Show this help."
	return k
}

// decodeSpan reads a time of a flag, in days too.
func decodeSpan(ctx *kong.DecodeContext, to reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	v, err := span.Parse(text)
	if err != nil {
		return err
	}
	to.SetInt(int64(v))
	return nil
}

// Run runs the command that args name and returns the exit code. The command's Run
// method may take ctx and the values of bind as parameters.
func (p *Program) Run(ctx context.Context, args []string, bind ...any) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			code = r.code
		default:
			panic(r)
		}
	}()
	if len(args) > 0 && args[0] == completeArg {
		p.complete(args[1:])
		return 0
	}
	k := p.Parser()
	args = helpArgs(args)
	command, rest := commandOf(k.Model.Node, args)
	mistake := oneDash(command, rest)
	var parsed *kong.Context
	if mistake == "" {
		var err error
		if parsed, err = k.Parse(args); err == nil {
			err = checkFlags(parsed)
		}
		if err != nil {
			mistake = mistakeOf(err)
		}
	}
	if mistake != "" {
		fmt.Fprintf(p.Stderr, "%s: %s see %s --help\n", p.Name, mistake, command.FullPath())
		return ExitUsage
	}
	parsed.Bind(p)
	parsed.BindTo(ctx, (*context.Context)(nil))
	return p.exitCode(parsed.Run(bind...))
}

// exitCode prints the error and returns the code for it. Failures are printed as they
// are, without the program's name: those of a file begin with file:line:column, which
// editors jump to.
func (p *Program) exitCode(err error) int {
	var interrupted interruption
	switch {
	case err == nil:
		return 0
	case errors.As(err, &interrupted):
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
		return interrupted.code()
	case errors.As(err, new(usageError)):
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
		return ExitUsage
	}
	fmt.Fprintln(p.Stderr, err)
	return ExitFailure
}
