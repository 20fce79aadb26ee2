package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fastlimit/fastlimit/bench"
	"github.com/fastlimit/fastlimit/bench/httpbench"
	"github.com/fastlimit/fastlimit/bench/load"
)

type benchHTTP struct {
	URL string `arg:"" optional:"" help:"The limiter to ask. It must answer every request with a Content-Length. Default: servers started here."`

	Server   []string      `placeholder:"NAME" help:"Servers to start: fastlimit, nginx, haproxy. Default: those installed."`
	Command  []string      `sep:"none" placeholder:"NAME=CMD" help:"Another server to start; {{.Addr}}, {{.PerSecond}} and {{.Burst}} in the command stand for address and rule."`
	Nginx    string        `placeholder:"PATH" help:"Path of nginx. Default: looked up."`
	HAProxy  string        `name:"haproxy" placeholder:"PATH" help:"Path of HAProxy. Default: looked up."`
	Loop     string        `enum:"open,closed" default:"open" help:"Load on URL: open (at --rate, corrected for coordinated omission) or closed (as fast as it answers)."`
	Rate     float64       `default:"10000" help:"Requests per second of an open loop."`
	Duration time.Duration `default:"4s" help:"Of an open loop."`
	Requests int           `default:"20000" help:"Requests of a closed loop, in each round."`
	Rounds   int           `default:"7" help:"Rounds of a closed loop."`
	Clients  int           `default:"32" help:"Clients, each with a connection; of this machine each has a loopback address of its own."`
}

// Run implements the command.
func (c *benchHTTP) Run(ctx context.Context, sys *system, b *benchCmd) error {
	if c.Clients < 2 || c.Requests < 1 || c.Rounds < 1 {
		return usageError{fmt.Errorf("--clients %d --requests %d --rounds %d: want 2 clients and 1 of the others, or more", c.Clients, c.Requests, c.Rounds)}
	}
	if c.URL != "" {
		part, err := c.target(ctx)
		if err != nil {
			return err
		}
		return b.measure(ctx, sys, part)
	}
	servers, err := c.servers(sys)
	if err != nil {
		return err
	}
	o := httpbench.Options{
		Servers: servers, Clients: c.Clients, Rounds: c.Rounds, Requests: c.Requests, Rate: c.Rate, Duration: c.Duration,
	}
	open := load.OpenConfig{Rate: c.Rate, Duration: c.Duration, Conns: c.Clients}
	if err := open.Validate(); err != nil {
		return usageError{err}
	}
	if err := o.Check(); err != nil {
		return err
	}
	return b.measure(ctx, sys, serversPart(o))
}

func (c *benchHTTP) servers(sys *system) ([]httpbench.Server, error) {
	var all []httpbench.Server
	for _, name := range c.Server {
		s, err := namedServer(name, c.path(name))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(c.Server) == 0 {
		var err error
		if all, err = installed(sys, c.path); err != nil {
			return nil, err
		}
	}
	for _, spec := range c.Command {
		s, err := httpbench.Command(spec)
		if err != nil {
			return nil, usageError{err}
		}
		all = append(all, s)
	}
	return all, nil
}

// path is what the flags say of a server, "" if nothing.
func (c *benchHTTP) path(name string) string {
	return map[string]string{"nginx": c.Nginx, "haproxy": c.HAProxy}[name]
}

// namedServer is a server that is known by name, at a path if that is given.
func namedServer(name, path string) (s httpbench.Server, err error) {
	switch name {
	case "fastlimit":
		self, err := os.Executable()
		return httpbench.Fastlimit(self), err
	case "nginx":
		s = httpbench.Nginx()
	case "haproxy":
		s = httpbench.HAProxy()
	default:
		return s, usageError{fmt.Errorf("--server %q: want fastlimit, nginx or haproxy, or --command for another", name)}
	}
	if path != "" {
		s = s.At(path)
	}
	return s, nil
}

// installed are the servers that this machine has, and those whose path is
// given.
func installed(sys *system, path func(name string) string) ([]httpbench.Server, error) {
	var all []httpbench.Server
	for _, name := range []string{"fastlimit", "nginx", "haproxy"} {
		s, err := namedServer(name, path(name))
		if err != nil {
			return nil, err
		}
		if _, err := s.Find(); err != nil && path(name) == "" {
			fmt.Fprintf(sys.stderr, "left out: %v\n", err)
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

func serversPart(o httpbench.Options) benchPart {
	return benchPart{
		run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
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

// target measures the URL, once it has answered.
func (c *benchHTTP) target(ctx context.Context) (benchPart, error) {
	o := httpbench.TargetOptions{
		URL: c.URL, Closed: c.Loop == "closed", Rate: c.Rate, Duration: c.Duration,
		Requests: c.Requests * c.Rounds, Clients: c.Clients,
	}
	if err := o.Check(ctx); err != nil {
		return benchPart{}, err
	}
	return benchPart{run: func(ctx context.Context, p bench.Progress) ([]bench.Result, error) {
		p(0, 1, c.URL)
		return httpbench.RunTarget(ctx, o)
	}}, nil
}
