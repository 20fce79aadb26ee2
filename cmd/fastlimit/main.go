// Command fastlimit denies clients that exceed their limit: live, as a decision
// service for reverse proxies (serve), or as a simulation over access logs (replay),
// for which it also suggests limits (suggest).
//
// serve ends with SIGTERM, after a drain, and reads its configuration again with SIGHUP.
//
// This package reads flags, files and signals and wires the parts together;
// what they do is in the packages below. Exit codes: 0 done, 1 failure, 2
// wrong usage, 130 interrupted; see package cli.
//
// A file for each command, and for serve those of what it is built from:
//
//	serve.go ─► node.go ─► store.go    the store that nodes share, of any driver
//	                    ─► state.go    what a restart is not to forget, in a file
//	                    ─► memory.go   Go's memory limits, from the configuration
//	                    ─► live.go     the overrides that operators set, the rules that they change
//	                    ─► livebans.go the bans that they list, make and end
//	                    ─► kernel.go   bans in the kernel, which is opened with the ports
//	                    ─► cluster.go  the exchange of counts with other nodes
//	                    ─► lists.go    files with lists, and what SIGHUP reads again
//	                    ─► reload.go   another configuration
//	                    ─► watch.go    a reload when files change
//
// settings.go loads the configuration for all commands that have one.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// system is what commands use of the operating system; tests replace it. Nothing else
// in this package reads the environment or writes to the terminal, so a test can run
// every command within its own process.
type system struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookupEnv      func(string) (string, bool)
}

func main() {
	args, ignored := asRLS(os.Args[0], os.Args[1:])
	if ignored {
		fmt.Fprintln(os.Stderr, "warning: arguments are ignored: as ratelimit, fastlimit is configured by the environment")
	}
	os.Exit(run(context.Background(), args, &system{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookupEnv: os.LookupEnv,
	}))
}

// commands is the command line as kong reads it: a field is a command, its struct the
// flags. The help texts are also the reference for flags; docs/ does not repeat them.
type commands struct {
	Serve      serveCmd       `cmd:"" help:"Run the decision service. Defaults: traffic on 127.0.0.1:8080, admin on 127.0.0.1:8081, 100/s per client address."`
	Validate   validateCmd    `cmd:"" help:"Check a configuration file, show its memory use and limits, and warn about likely mistakes."`
	Replay     replayCmd      `cmd:"" help:"Show which requests in access logs a limit would have denied, and which clients sent them."`
	Suggest    suggestCmd     `cmd:"" help:"Suggest limits for the clients in access logs, as rules to paste, with what each would deny."`
	Top        topCmd         `cmd:"" help:"Show the top clients across all nodes."`
	Explain    explainCmd     `cmd:"" help:"Show what the next request of a client would get, and why, as in: fastlimit explain 192.0.2.7 --url https://example.com/login."`
	Reset      resetCmd       `cmd:"" help:"Empty a client's bucket, so that it may use its whole burst again, as in: fastlimit reset per-ip 192.0.2.7."`
	Changes    changesCmd     `cmd:"" help:"Show who changed what on a running node, the latest first."`
	Rule       ruleCmd        `cmd:"" help:"Change a rule of a running node for a while, as in: fastlimit rule per-ip mode=shadow rate=50/s --for 30m. Without settings: show the rules."`
	Override   overrideCmd    `cmd:"" help:"Give clients a different limit for a while."`
	Bans       bansCmd        `cmd:"" help:"Show who is banned on a running node, and for how much longer."`
	Ban        banCmd         `cmd:"" help:"Ban addresses or prefixes on a running node, as in: fastlimit ban 192.0.2.0/24 --for 1h --reason scraper."`
	Unban      unbanCmd       `cmd:"" help:"End bans of a client or prefix, by operators or rules, as in: fastlimit unban 192.0.2.0/24."`
	Key        keyCmd         `cmd:"" help:"Show the hash that top, bans and logs show for the value of a header or cookie, as in: fastlimit key - <key.txt."`
	Reload     reloadCmd      `cmd:"" help:"Make a running node read its configuration again."`
	Ready      readyCmd       `cmd:"" help:"Exit with 0 if a running node is ready for traffic, else with 1 and the reason: a probe for containers."`
	Migrate    migrateCmd     `cmd:"" help:"Print rules for the limit_req and limit_conn lines of an nginx configuration, and list those that it cannot translate."`
	RLS        rlsCmd         `cmd:"" name:"rls" help:"Serve Envoy's rate limit service in place of envoyproxy/ratelimit: the same environment variables, ports and files. A link called ratelimit does the same."`
	Schema     schemaCmd      `cmd:"" help:"Print the JSON Schema of the configuration file, for editors."`
	Store      storeCmd       `cmd:"" help:"Create the schema that postgres needs."`
	Completion cli.Completion `cmd:"" help:"Print the script that makes a shell complete commands, flags, values and files, as in: source <(fastlimit completion bash)."`
	Man        cli.Man        `cmd:"" hidden:"" help:"Write the manual pages to a folder."`
	Version    versionCmd     `cmd:"" help:"Show version, commit and Go version."`
	Help       cli.Help       `cmd:"" help:"Show this help, or the help for a command, as in: fastlimit help replay."`

	VersionFlag kong.VersionFlag `name:"version" help:"Show version, commit and Go version."`
}

// run runs the command that args name and returns the exit code.
func run(ctx context.Context, args []string, sys *system) (code int) {
	// bench was a command until it became a program of its own: whoever has it in a
	// script is told what to run instead of "unexpected argument".
	if len(args) > 0 && args[0] == "bench" {
		fmt.Fprintf(sys.stderr, "fastlimit: bench is a separate program: in a clone of https://%s, %s\n",
			repository, strings.Join(append([]string{"go run ./bench"}, args[1:]...), " "))
		return cli.ExitUsage
	}
	return program(sys).Run(ctx, args, sys)
}

const repository = "github.com/fastlimit/fastlimit"

// program is apart from run so that tests can walk the model of the command line.
func program(sys *system) *cli.Program {
	return &cli.Program{
		Name: "fastlimit", Description: "A rate limiter for servers under attack.", Version: versionText(),
		Commands: new(commands), Stdout: sys.stdout, Stderr: sys.stderr,
	}
}
