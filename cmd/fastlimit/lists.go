package main

import (
	"context"

	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/server"
)

// newLists makes what follows the files of allow and deny, and lets the server show them;
// nil if there are none.
func newLists(n *node, sc *server.Config) *lists.Set {
	c := n.cfg.Lists
	if len(c.Files) == 0 {
		return nil
	}
	c.Read, c.Log = config.ReadFile, n.log
	s := lists.New(c)
	sc.Collectors = append(sc.Collectors, metrics.Lists(s.Files))
	sc.ListFiles = func() (all []server.ListFileInfo) {
		for _, f := range s.Files() {
			all = append(all, server.ListFileInfo{List: f.List.String(), File: f.Path, Entries: f.Entries, Read: f.Read, Error: f.Error})
		}
		return all
	}
	return s
}

// startLists has the server decide by what the files have until the node is closed.
func (n *node) startLists() {
	if n.lists == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := n.lists.Start(ctx, n.server.SetLists)
	n.stopLists = func() { cancel(); <-stopped }
}

// reread reads the files again that may change while a node runs, certificates and lists,
// and opens the access log anew.
func (n *node) reread() {
	n.server.RereadCertificates()
	n.server.ReopenAccessLog()
	if n.lists != nil {
		n.lists.Reread()
	}
}
