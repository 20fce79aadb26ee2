package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/bucket/remote"
	"github.com/fastlimit/fastlimit/internal/cli"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/mistake"
	"github.com/fastlimit/fastlimit/internal/rls/count"
	"github.com/fastlimit/fastlimit/internal/rls/descriptor"
	"github.com/fastlimit/fastlimit/internal/rls/env"
	"github.com/fastlimit/fastlimit/internal/rls/files"
	rlsfront "github.com/fastlimit/fastlimit/internal/rls/front"
	"github.com/fastlimit/fastlimit/internal/rls/service"
	"github.com/fastlimit/fastlimit/internal/rls/stats"
	"github.com/fastlimit/fastlimit/internal/rls/xds"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// rlsCmd has no flags: it is configured by the environment of the program that it replaces.
type rlsCmd struct{}

// Run implements the command.
func (rlsCmd) Run(ctx context.Context, sys *system) error {
	settings, warnings, err := env.Read(sys.lookupEnv)
	if err != nil {
		return cli.Usage(err)
	}
	if path := settings.ConfigFile; path != "" {
		c, err := config.LoadCluster(path, sys.lookupEnv)
		if err != nil {
			return cli.Usage(err)
		}
		settings.Cluster = &c.Config
		settings.Cluster.Name += "-rls" // those that serve exchange other things
	}
	log := rlsLog(settings, sys.stderr)
	for _, w := range warnings {
		log.Warn(w)
	}
	n, err := newRLSNode(ctx, settings, log)
	if err != nil {
		return err
	}
	defer n.close()
	return cli.Signalled(ctx, cli.SignalHooks{
		OnStop: func(s os.Signal) {
			log.Info("stopping; a second signal stops at once", slog.String("signal", s.String()))
		},
		OnHangup: n.hangup,
	}, n.run)
}

func rlsLog(s env.Settings, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// asRLS returns the arguments of a program that was started under the name of the one that
// it replaces, and whether it was: those that it has been given mean nothing.
func asRLS(program string, args []string) ([]string, bool) {
	if filepath.Base(program) != "ratelimit" {
		return args, false
	}
	return []string{"rls"}, len(args) > 0
}

// rlsNode is the service with its configuration. Its goroutine is that of run.
type rlsNode struct {
	settings env.Settings
	log      *slog.Logger
	memory   memory
	stats    *stats.Registry
	service  *service.Service
	front    *rlsfront.Front
	store    *remote.Store        // nil: there is no Redis
	nodes    *gossip.Nodes        // that count together; nil: there are none
	exchange func() stats.Cluster // with them
	folder   files.Folder
	hangups  chan struct{}
}

// memory is where this process counts: [count.Counters], or [count.Nodes].
type memory interface {
	Sweep(now time.Duration)
	Evictions() uint64
}

func newRLSNode(ctx context.Context, s env.Settings, log *slog.Logger) (*rlsNode, error) {
	n := &rlsNode{
		settings: s, log: log, hangups: make(chan struct{}, 1),
		folder: files.Folder{Dir: s.Files.Dir, Prefix: s.Files.Prefix, DotFiles: s.Files.DotFiles},
	}
	counter, err := n.counter(ctx)
	if err == nil && s.EscalateAt > 0 {
		counter, err = count.NewFront(counter, s.Clients, uint64(s.EscalateAt))
	}
	if err != nil {
		n.close()
		return nil, err
	}
	n.stats = stats.New(s.Near, n.memory.Evictions)
	n.stats.Show(n.exchange)
	n.service = service.New(s.Service, counter, n.stats)
	if n.front, err = rlsfront.New(s, n.service, n.stats, log); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// counter starts what counts: with the nodes of a cluster, in Redis, or in memory alone. A
// Redis that is away is used once it is back.
func (n *rlsNode) counter(ctx context.Context) (count.Counter, error) {
	if n.settings.Cluster != nil {
		return n.join()
	}
	counters, err := count.New(n.settings.Clients)
	if n.memory = counters; err != nil || n.settings.Redis == nil {
		return counters, err
	}
	c := *n.settings.Redis
	c.Logger = n.log
	store, err := redisstore.OpenHits(ctx, c, n.settings.Jitter)
	if store == nil {
		return nil, err
	}
	if err != nil {
		n.log.Warn("Redis is away: until it is back this process counts for itself", slog.Any("error", err))
	}
	n.store = store
	return count.NewShared(counters, store, n.settings.Prefix, c.Timeout), nil
}

func (n *rlsNode) close() {
	if n.nodes != nil {
		n.nodes.Close()
	}
	if n.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = n.store.Close(ctx) // what is lost is some counts
}

// hangup asks run to read the files again. It never waits: a burst of SIGHUP while files are
// read must not keep SIGTERM away, and one that is asked for already reads what is there now.
func (n *rlsNode) hangup() {
	select {
	case n.hangups <- struct{}{}:
	default:
	}
}

func (n *rlsNode) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	look := func() {} // for changes of files
	if n.settings.XDS == nil {
		watcher := files.NewWatcher(n.folder)
		watcher.Changed() // what is read now is known
		n.load()
		look = func() {
			if watcher.Changed() {
				n.load()
			}
		}
	} else if err := n.follow(ctx); err != nil {
		return err
	}
	if err := n.front.Listen(n.settings); err != nil {
		return err
	}
	// Scripts wait for this line at the level that is upstream's default.
	n.log.LogAttrs(ctx, slog.LevelWarn, "fastlimit rls is serving", n.front.Addrs()...)
	served := make(chan error, 1)
	go func() { served <- n.front.Serve(ctx) }()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case err := <-served:
			return err
		case <-n.hangups:
			if n.settings.XDS == nil {
				n.load()
			}
		case <-ticks.C:
			look()
			n.ready()
			n.memory.Sweep(time.Duration(time.Now().UnixNano()))
		}
	}
}

// load puts the limits of the files in force, or logs what is wrong with them.
func (n *rlsNode) load() {
	limits, warnings, err := n.folder.Load(n.settings.Merge)
	for _, w := range warnings {
		n.log.Warn(w.Error())
	}
	if err != nil {
		n.refuse(err)
		return
	}
	n.apply(limits)
}

// follow has a control plane send the limits, and waits for the first of them unless it is
// told not to.
func (n *rlsNode) follow(ctx context.Context) error {
	first := make(chan struct{})
	c := *n.settings.XDS
	c.Logger, c.Refuse = n.log, n.refuse
	done := sync.OnceFunc(func() { close(first) })
	c.Apply = func(l *descriptor.Limits) {
		n.apply(l)
		done()
	}
	n.ready()
	go xds.Run(ctx, c)
	if n.settings.Start {
		return nil
	}
	n.log.Warn("waiting for the first limits", slog.String("server", c.Server))
	select {
	case <-first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apply puts limits in force.
func (n *rlsNode) apply(l *descriptor.Limits) {
	n.service.SetLimits(l)
	runtime.GC() // limits that change often would take their memory twice
	n.stats.ConfigLoads.Add(1)
	n.log.Info("the configuration is in force", slog.Int("domains", l.Domains()), slog.Int("limits", l.Len()))
	n.ready()
}

// refuse logs why limits are not put in force.
func (n *rlsNode) refuse(err error) {
	n.stats.ConfigErrors.Add(1)
	var all mistake.Errors
	if !errors.As(err, &all) {
		n.log.Error(err.Error())
	}
	for _, one := range all {
		n.log.Error(one.Error())
	}
	n.log.Error("the configuration has errors: the limits in force stay", slog.Bool("any", n.service.Limits() != nil))
	n.ready()
}

func (n *rlsNode) ready() {
	now := n.service.Limits()
	named := n.nodes == nil || n.nodes.Ready() == nil
	n.front.Ready(named && (!n.settings.Healthy || now != nil && now.Domains() > 0))
}
