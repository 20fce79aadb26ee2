// Package command is the command line of bench and of peerbench, which has the
// same measurements in process with more limiters.
package command

import (
	"context"
	"io"
	"os"

	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/inproc"
	"github.com/fastlimit/fastlimit/bench/redisbench"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// system is where commands print.
type system struct{ stdout, stderr io.Writer }

// commands is the command line: the flags that all measurements share, and a
// command for each of them.
type commands struct {
	peers Peers // may be nil

	Output string `short:"o" enum:"text,json" default:"text" help:"Format of the results: text or json."`
	Out    string `placeholder:"FILE" help:"Write the results there instead of stdout."`
	HTML   string `name:"html" placeholder:"FILE" help:"Write a page with tables and plots too."`
	Seed   uint64 `default:"1" help:"Random seed."`
	Binary string `placeholder:"PATH" help:"The fastlimit to measure over HTTP. Default: built from this module."`

	Local      localCmd            `cmd:"" help:"Speed within a process: time and allocations per decision, on 1 to all cores."`
	Accuracy   accuracyCmd         `cmd:"" help:"False denials, excess and exact checks, against an exact oracle."`
	Algorithms algorithmsCmd       `cmd:"" help:"Time per decision of each algorithm, in memory and on a Redis started here, for one client that is admitted or denied."`
	Memory     memoryCmd           `cmd:"" help:"Memory under floods of distinct clients, and whether a heavy client hidden in one stays limited."`
	HTTP       httpCmd             `cmd:"" name:"http" help:"A limiter over HTTP: the one at URL, or fastlimit beside nginx, HAProxy and others, started here."`
	HTTPCost   costCmd             `cmd:"" name:"httpcost" help:"What a decision costs over HTTP: CPU time of a request, against that of a bare fasthttp server with the same answer."`
	Bare       httpbench.Bare      `cmd:"" name:"httpcost-bare" hidden:""`
	Proxy      proxyCmd            `cmd:"" help:"Reverse proxies with limits: CPU time of a request, fastlimit beside nginx, HAProxy and a bare fasthttp proxy, started here."`
	ProxyApp   httpbench.App       `cmd:"" name:"proxy-app" hidden:""`
	ProxyBare  httpbench.BareProxy `cmd:"" name:"proxy-bare" hidden:""`
	Generate   httpbench.Generator `cmd:"" name:"http-generator" hidden:""`
	Bans       bansCmd             `cmd:"" help:"What a flood costs a server that shuts its senders out: fastlimit with bans in the kernel and in memory beside nginx with fail2ban and HAProxy with silent-drop, started here in network namespaces."`
	Redis      redisCmd            `cmd:"" help:"Redis operations per request under a flood, and exact checks per second, on a Redis started here."`
	Postgres   postgresCmd         `cmd:"" help:"PostgreSQL operations per request under a flood, exact checks per second beside an upsert for each, and the size of the table, on a PostgreSQL started here."`
	Cluster    clusterCmd          `cmd:"" help:"Cluster traffic by number of active clients: bytes sent to each peer, and requests that peers are not told of. In memory, in simulated time."`
	Overrides  overridesCmd        `cmd:"" help:"Time per decision and memory of a rule with 100,000 overrides, beside one without."`
	All        allCmd              `cmd:"" help:"A short run of each, in under a minute."`
	Report     reportCmd           `cmd:"" help:"Merge JSON reports into one page or table."`
	Help       cli.Help            `cmd:"" help:"Show this help, or that of a command: bench help http."`
}

// Peers returns limiters to measure in process beside fastlimit and the reference.
// Those that keep their buckets in Redis are included unless the URL is empty.
type Peers func(redis string) []inproc.Contender

// Main runs the program of that name and ends the process. peers may be nil.
func Main(name string, peers Peers) {
	sys := &system{os.Stdout, os.Stderr}
	inproc.RunChild(func(args []string) []inproc.Contender {
		all := &commands{peers: peers}
		_, _ = program(name, all, sys).Parser().Parse(args) // valid: the parent has parsed the same
		return append(all.contenders(all.Local.Redis), all.algorithms(all.Algorithms.Redis)...)
	})
	os.Exit(program(name, &commands{peers: peers}, sys).Run(context.Background(), os.Args[1:], sys))
}

func program(name string, all *commands, sys *system) *cli.Program {
	return &cli.Program{
		Name: name, Description: "Measures limiters: speed, accuracy, memory, over HTTP, with Redis and PostgreSQL.",
		Commands: all, Stdout: sys.stdout, Stderr: sys.stderr,
	}
}

// contenders returns the limiters to measure in process, with those that keep
// their buckets in the Redis at the URL, unless that is empty.
func (b *commands) contenders(redis string) []inproc.Contender {
	all := inproc.DefaultContenders()
	if b.peers != nil {
		all = append(all, b.peers(redis)...)
	}
	if redis != "" {
		all = append(all, redisbench.Contender(redis))
	}
	return all
}
