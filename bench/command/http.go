package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/load"
	"github.com/fastlimit/fastlimit/bench/report"
	"github.com/fastlimit/fastlimit/internal/cli"
)

type httpCmd struct {
	URL string `arg:"" optional:"" help:"The limiter to ask. It must answer every request with a Content-Length. Default: servers started here."`

	Server  []string `placeholder:"NAME" help:"Servers to start: fastlimit, nginx, haproxy. Default: those installed."`
	Command []string `sep:"none" placeholder:"NAME=CMD" help:"Another server to start; {{.Addr}}, {{.PerSecond}} and {{.Burst}} in the command stand for address and rule."`
	Nginx   string   `placeholder:"PATH" help:"Path of nginx. Default: looked up."`
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
	o := c.Options
	var err error
	if o.Servers, err = c.servers(sys); err != nil {
		return err
	}
	open := load.OpenConfig{Rate: c.Rate, Duration: c.Duration, Conns: c.Clients}
	if err := open.Validate(); err != nil {
		return cli.Usage(err)
	}
	if err := o.Check(); err != nil {
		return err
	}
	if len(c.Server) == 0 || slices.Contains(c.Server, "fastlimit") {
		binary, remove, err := b.product(ctx)
		if err != nil {
			return err
		}
		defer remove()
		o.Servers = slices.Insert(o.Servers, 0, httpbench.Fastlimit(binary))
	}
	return b.measure(ctx, sys, serversPart(o))
}

// servers returns the servers to compare fastlimit with.
func (c *httpCmd) servers(sys *system) (all []httpbench.Server, err error) {
	for _, name := range c.Server {
		switch name {
		case "fastlimit":
		case "nginx", "haproxy":
			s, _ := c.known(name)
			all = append(all, s)
		default:
			return nil, cli.Usagef("--server %q: want fastlimit, nginx or haproxy, or --command for another", name)
		}
	}
	if len(c.Server) == 0 {
		all = c.installed(sys)
	}
	for _, spec := range c.Command {
		s, err := httpbench.Command(spec)
		if err != nil {
			return nil, cli.Usage(err)
		}
		all = append(all, s)
	}
	return all, nil
}

// known returns nginx or HAProxy, and its path if one is given.
func (c *httpCmd) known(name string) (s httpbench.Server, path string) {
	s, path = httpbench.Nginx(), c.Nginx
	if name == "haproxy" {
		s, path = httpbench.HAProxy(), c.HAProxy
	}
	if path != "" {
		s = s.At(path)
	}
	return s, path
}

// installed returns nginx and HAProxy as far as this machine has them. One whose
// path is given is never left out, so that a wrong path is an error.
func (c *httpCmd) installed(sys *system) (all []httpbench.Server) {
	for _, name := range []string{"nginx", "haproxy"} {
		s, path := c.known(name)
		if _, err := s.Find(); err != nil && path == "" {
			fmt.Fprintf(sys.stderr, "left out: %v\n", err)
			continue
		}
		all = append(all, s)
	}
	return all
}

func serversPart(o httpbench.Options) part {
	return part{
		run: func(ctx context.Context, p report.Progress) ([]report.Result, error) {
			o.Progress = p
			return httpbench.Run(ctx, o)
		},
		versions: func(ctx context.Context) map[string]string {
			versions := map[string]string{}
			for _, s := range o.Servers {
				name, _, _ := strings.Cut(s.Name, " ")
				versions[name] = s.Version(ctx)
			}
			return versions
		},
	}
}

// target returns the measurement of the URL, which has answered once.
func (c *httpCmd) target(ctx context.Context) (part, error) {
	o := httpbench.TargetOptions{
		URL: c.URL, Closed: c.Loop == "closed", Rate: c.Rate, Duration: c.Duration,
		Requests: c.Requests * c.Rounds, Clients: c.Clients,
	}
	if err := o.Check(ctx); err != nil {
		return part{}, err
	}
	return part{run: func(ctx context.Context, p report.Progress) ([]report.Result, error) {
		p(0, 1, c.URL)
		return httpbench.RunTarget(ctx, o)
	}}, nil
}

type costCmd struct{ httpbench.CostOptions }

// Run implements the command.
func (c *costCmd) Run(ctx context.Context, sys *system, b *commands) error {
	if c.Pairs < 1 || c.Requests < 1 || c.Conns < 2 {
		return cli.Usagef("--pairs %d --requests %d --conns %d: want 2 connections and 1 of the others, or more", c.Pairs, c.Requests, c.Conns)
	}
	binary, remove, err := b.product(ctx)
	if err != nil {
		return err
	}
	defer remove()
	c.Fastlimit, c.BareCommand = binary, "httpcost-bare"
	return b.measure(ctx, sys, part{run: func(ctx context.Context, p report.Progress) ([]report.Result, error) {
		c.Progress = p
		return httpbench.RunCost(ctx, c.CostOptions)
	}})
}
