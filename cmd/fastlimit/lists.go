package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/internal/namedfile"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
)

// follower follows the files of allow and deny: those of one configuration after the other.
type follower struct {
	set  atomic.Pointer[lists.Set] // of the configuration in force
	stop func()                    // nil: not started
}

// of makes the set of a configuration, whose files have just been read.
func (*follower) of(cfg *config.Config, log *slog.Logger) *lists.Set {
	c := cfg.Lists
	c.Read, c.Log = namedfile.ReadFile, log
	return lists.New(c)
}

// show lets the server show the files.
func (f *follower) show(cfg *config.Config, log *slog.Logger, sc *server.Config) {
	f.set.Store(f.of(cfg, log))
	files := func() []lists.State { return f.set.Load().Files() }
	sc.Collectors = append(sc.Collectors, metrics.Lists(files))
	sc.ListFiles = func() (all []server.ListFileInfo) {
		for _, f := range files() {
			all = append(all, server.ListFileInfo{List: f.List.String(), File: f.Path, Entries: f.Entries, Read: f.Read, Error: f.Error})
		}
		return all
	}
}

// start has apply decide by what the files have until it is stopped.
func (f *follower) start(apply func(*policy.Lists)) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := f.set.Load().Start(ctx, apply)
	f.stop = func() { cancel(); <-stopped }
}

func (f *follower) close() {
	if f.stop != nil {
		f.stop()
	}
}

// reread reads the files again that may change while a node runs, certificates and lists,
// and opens the access log anew.
func (n *node) reread() {
	n.server.RereadCertificates()
	n.server.ReopenAccessLog()
	n.lists.set.Load().Reread()
}
