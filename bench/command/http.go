package command

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/proc"
	"github.com/fastlimit/fastlimit/internal/cli"
)

// httpCmd measures a URL, if one is given, or servers that it starts.
type httpCmd struct {
	URL string `arg:"" optional:"" help:"The limiter to ask. It must answer every request with a Content-Length. Default: servers started here."`

	Server  []string `placeholder:"NAME" help:"Servers to start, the first of which the others are compared with: fastlimit, nginx, nginx-tuned (for many new connections), haproxy, bare (a fasthttp handler that decides nothing, without timeouts). Default: fastlimit and what is installed of the next two."`
	Command []string `sep:"none" placeholder:"NAME=CMD" help:"Another server to start; {{.Addr}}, {{.PerSecond}} and {{.Burst}} in the command stand for address and rule."`
	Nginx   string   `placeholder:"PATH" help:"Path of nginx. Default: looked up."`
	Before  string   `placeholder:"PATH" help:"Another fastlimit to compare with: the binary before a change."`
	HAProxy string   `name:"haproxy" placeholder:"PATH" help:"Path of HAProxy. Default: looked up."`
	Loop    string   `enum:"open,closed" default:"open" help:"Load on URL: open (at --rate, corrected for coordinated omission) or closed (as fast as it answers)."`

	httpbench.Options
}

// Run implements the command.
func (c *httpCmd) Run(ctx context.Context, sys *system, b *commands) error {
	if c.Clients < 2 || c.Requests < 1 || c.Rounds < 1 {
		return cli.Usagef("--clients %d --requests %d --rounds %d: want 2 clients and 1 of the others, or more", c.Clients, c.Requests, c.Rounds)
	}
	if c.URL != "" {
		return b.measureOne(ctx, sys)(c.target(ctx))
	}
	if err := c.find(sys); err != nil {
		return err
	}
	open := load.OpenConfig{Rate: c.Rate, Duration: c.Duration, Conns: c.Clients}
	if err := open.Validate(); err != nil {
		return cli.Usage(err)
	}
	if err := c.Check(); err != nil {
		return err
	}
	if len(c.Server) == 0 || slices.Contains(c.Server, "fastlimit") {
		remove, err := c.addFastlimit(ctx, b)
		if err != nil {
			return err
		}
		defer remove()
	}
	warnAutogroups(sys)
	return b.measure(ctx, sys, serversPart(&c.Options))
}

// warnAutogroups tells those who keep other programs off by nice.
func warnAutogroups(sys *system) {
	if proc.Autogroups() {
		fmt.Fprintln(sys.stderr, "kernel.sched_autogroup_enabled is 1: nice has no effect between sessions, and what else runs gets its share of these cores; sysctl -w kernel.sched_autogroup_enabled=0")
	}
}

// find sets the servers to compare fastlimit with: those named, or nginx and HAProxy
// as far as this machine has them. One whose path is given is never left out, so that
// a wrong path is an error.
func (c *httpCmd) find(sys *system) error {
	names := c.Server
	if len(names) == 0 {
		names = []string{"nginx", "haproxy"}
	}
	for _, name := range names {
		var s httpbench.Server
		var path string
		switch name {
		case "fastlimit": // added when it is built
			continue
		case "nginx":
			s, path = httpbench.Nginx(), c.Nginx
		case "nginx-tuned":
			s, path = httpbench.TunedNginx(), c.Nginx
		case "haproxy":
			s, path = httpbench.HAProxy(), c.HAProxy
		case "bare":
			s = httpbench.BareServer(false)
		default:
			return cli.Usagef("--server %q: want fastlimit, nginx, nginx-tuned, haproxy or bare, or --command for another", name)
		}
		if path != "" {
			s = s.At(path)
		}
		if _, err := s.Find(); err != nil && path == "" && len(c.Server) == 0 {
			fmt.Fprintf(sys.stderr, "left out: %v\n", err)
			continue
		}
		c.Servers = append(c.Servers, s)
	}
	if c.Before != "" {
		path, err := filepath.Abs(c.Before)
		if err != nil {
			return err
		}
		s := httpbench.Fastlimit(path)
		s.Name = "fastlimit before"
		c.Servers = append(c.Servers, s)
	}
	for _, spec := range c.Command {
		s, err := httpbench.Command(spec)
		if err != nil {
			return cli.Usage(err)
		}
		c.Servers = append(c.Servers, s)
	}
	return nil
}

// addFastlimit puts the product before the other servers.
func (c *httpCmd) addFastlimit(ctx context.Context, b *commands) (remove func(), err error) {
	binary, remove, err := b.product(ctx)
	if err == nil {
		c.Servers = slices.Insert(c.Servers, 0, httpbench.Fastlimit(binary))
	}
	return remove, err
}

// serversPart has the versions of the programs too: a figure of nginx means nothing
// without its version.
func serversPart(o *httpbench.Options) part {
	p := newPart(o, &o.Progress, httpbench.Run)
	p.versions = func(ctx context.Context) map[string]string {
		versions := map[string]string{}
		for _, s := range o.Servers {
			name, _, _ := strings.Cut(s.Name, " ")
			versions[name] = s.Version(ctx)
		}
		return versions
	}
	return p
}

// target returns the measurement of the URL, which has answered once.
func (c *httpCmd) target(ctx context.Context) (part, error) {
	o := httpbench.TargetOptions{Options: c.Options, URL: c.URL, Closed: c.Loop == "closed"}
	o.Requests *= o.Rounds
	if err := o.Check(ctx); err != nil {
		return part{}, err
	}
	return newPart(&o, &o.Progress, httpbench.RunTarget), nil
}

// costCmd is [httpCmd] cut down to the question of what fastlimit adds to fasthttp.
type costCmd struct{ httpbench.CostOptions }

// Run implements the command.
func (c *costCmd) Run(ctx context.Context, sys *system, b *commands) error {
	if c.Pairs < 1 || c.Requests < 1 || c.Conns < 2 {
		return cli.Usagef("--pairs %d --requests %d --conns %d: want 2 connections and 1 of the others, or more", c.Pairs, c.Requests, c.Conns)
	}
	return b.measureProduct(ctx, sys, &c.Fastlimit, newPart(&c.CostOptions, &c.Progress, httpbench.RunCost))
}

// measureProduct takes a measurement of the product, whose path goes into its options.
func (b *commands) measureProduct(ctx context.Context, sys *system, path *string, p part) error {
	binary, remove, err := b.product(ctx)
	if err != nil {
		return err
	}
	defer remove()
	*path = binary
	warnAutogroups(sys)
	return b.measure(ctx, sys, p)
}

// proxyCmd measures fastlimit as a reverse proxy.
type proxyCmd struct{ httpbench.ProxyOptions }

// Run implements the command.
func (c *proxyCmd) Run(ctx context.Context, sys *system, b *commands) error {
	if c.Rounds < 1 || c.Requests < 1 || c.Conns < 2 {
		return cli.Usagef("--rounds %d --requests %d --conns %d: want 2 connections and 1 of the others, or more", c.Rounds, c.Requests, c.Conns)
	}
	return b.measureProduct(ctx, sys, &c.Fastlimit, newPart(&c.ProxyOptions, &c.Progress, httpbench.RunProxy))
}
