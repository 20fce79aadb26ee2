package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
)

// serveCmd has flags for what differs between machines, or is tried out without a
// file. All other settings are in the file only, so that there is one place to look.
type serveCmd struct {
	limitFlags

	Listen     string         `placeholder:"ADDR" help:"Address to accept traffic on, host:port or unix:/path. Port 0 picks a free port."`
	Admin      string         `placeholder:"ADDR" help:"Address for health, metrics and profiles, host:port or unix:/path. Clients must not reach it."`
	Upstream   string         `placeholder:"URL" help:"Server that gets the admitted requests, http://host:port, https://host:port or unix:/path. Makes fastlimit a reverse proxy."`
	Redis      string         `placeholder:"URL" help:"URL of a Redis that all nodes share for exact checks, for example redis://127.0.0.1:6379/0. Without it each node enforces the limits on its own."`
	LogFormat  string         `enum:"text,json" default:"text" help:"Log format on stderr: text or json."`
	DrainDelay *time.Duration `placeholder:"5s" help:"Time from SIGTERM, when /readyz starts to return 503, until the listeners close. Set it to the time that your load balancer needs to notice. Default: drain.delay in the file, or 1s."`
	InitConfig bool           `help:"Print a commented configuration file to start from, as in: fastlimit serve --init-config > fastlimit.yaml."`
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, sys *system) error {
	if c.InitConfig {
		return c.initConfig(sys)
	}
	cfg, err := c.configuration(sys)
	if err != nil {
		return err
	}
	// What can be wrong with the configuration fails here. The server's ports open
	// only after that, so nobody connects to a node that could not answer.
	sink := newLogSink(sys.stderr)
	n, err := newNode(ctx, cfg, c.logger(sink), sink, sys)
	if err != nil {
		return err
	}
	defer n.close()
	if c.Config != "" && c.Config != "-" {
		n.load = func() (*config.Config, error) { return c.configuration(sys) }
	}
	// Signals are wired before anybody can know from the log that it runs: whoever
	// waits for the line may send SIGTERM right after it. There is no grace period, as
	// the server bounds its drain itself.
	return cli.Signalled(ctx, cli.SignalHooks{
		OnStop: func(s os.Signal) {
			n.manager.Stopping()
			n.log.Info("stopping; a second signal stops at once", slog.String("signal", s.String()))
		},
		// Scripts for log rotation send SIGHUP too, also to a node without a file.
		OnHangup: func() {
			n.reread()
			if n.load == nil {
				n.log.Info("SIGHUP: there is no configuration file to read again: certificates and lists were read again, and the access log was reopened")
				return
			}
			_ = n.reload(ctx, "SIGHUP") // it has logged the error
		},
	}, func(ctx context.Context) error {
		if err := n.server.Listen(); err != nil {
			return err
		}
		// Tests and scripts wait for this line, and read the addresses from it.
		n.log.Info("fastlimit is serving", n.startAttrs()...)
		n.manager.Ready(n.status(nil))
		stop := n.watch()
		defer stop()
		return n.server.Serve(ctx)
	})
}

// configuration is the file's, with the flags over it.
func (c *serveCmd) configuration(sys *system) (*config.Config, error) {
	cfg, err := c.load(config.Flags{Listen: c.Listen, Admin: c.Admin, Upstream: c.Upstream, Redis: c.Redis}, sys)
	if err != nil {
		return nil, err
	}
	if c.DrainDelay != nil { // 0 is a value: drain at once
		if *c.DrainDelay < 0 {
			return nil, cli.Usagef("--drain-delay %v: want 0 or more", *c.DrainDelay)
		}
		cfg.Server.Drain.Delay = *c.DrainDelay
	}
	return cfg, nil
}

// logger logs without a filter by level: what the server logs is bounded per second.
func (c *serveCmd) logger(w io.Writer) *slog.Logger {
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}
