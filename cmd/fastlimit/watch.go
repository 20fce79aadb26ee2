package main

import (
	"context"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/namedfile"
)

// watchEvery is the pause between two looks at the files of a configuration; tests are in a
// hurry.
var watchEvery = time.Second

// watch reloads when a file of the configuration has changed, for as long as its watch is
// true, until it is stopped. What has changed is read when it has stayed the same for two
// looks, so nothing is read that is being written. Following links sees a ConfigMap of Kubernetes replaced.
func (n *node) watch() (stop func()) {
	if n.load == nil {
		return func() {}
	}
	return background(func(ctx context.Context) {
		w := watcher{taken: look(n.configuration())}
		w.last = w.taken
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(watchEvery):
				if cfg := n.configuration(); cfg.Watch && w.changed(look(cfg)) {
					_ = n.reload(ctx, "watch") // it has logged the error
					w.take(look(n.configuration()))
				}
			}
		}
	})
}

// background runs f until it is stopped, which waits for its end.
func background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() { cancel(); running.Wait() }
}

// configuration is the one in force.
func (n *node) configuration() *config.Config {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	return n.cfg
}

type watcher struct {
	taken, last map[string]fs.FileInfo // at the last reload, and at the last look
}

// changed reports whether the files are not as they were at the last reload, and are as at
// the last look.
func (w *watcher) changed(now map[string]fs.FileInfo) bool {
	settled := maps.EqualFunc(now, w.last, namedfile.Same)
	w.last = now
	return settled && !maps.EqualFunc(now, w.taken, namedfile.Same)
}

// take notes what the reload has read: of files that were looked at before it, what was seen
// then, as they may have changed since.
func (w *watcher) take(now map[string]fs.FileInfo) {
	for path := range now {
		if before, ok := w.last[path]; ok {
			now[path] = before
		}
	}
	w.taken, w.last = now, maps.Clone(now)
}

// look is what is known of the files of a configuration.
func look(cfg *config.Config) map[string]fs.FileInfo {
	all := map[string]fs.FileInfo{cfg.File: namedfile.Look(cfg.File)}
	for _, f := range cfg.Files {
		all[f] = namedfile.Look(f)
	}
	return all
}
