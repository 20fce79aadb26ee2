package main

import (
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/fastlimit/fastlimit/ban/feed"
	"github.com/fastlimit/fastlimit/ban/nft"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/server"
)

// newKernel has the server feed the kernel once its listeners are bound, if the configuration
// asks for that.
func newKernel(n *node, sc *server.Config) {
	k := n.cfg.Kernel
	if k == nil {
		return
	}
	sc.Kernel = &server.Kernel{Table: k.Table, Open: func(listens []netip.AddrPort) (_ *feed.Feed, err error) {
		n.feed, err = openFeed(k, listens, n.log)
		return n.feed, err
	}}
}

// openFeed makes the table and begins to feed it. Its error says what to grant, or to change.
// In shadow mode there is no table, and nothing is needed.
func openFeed(k *config.Kernel, listens []netip.AddrPort, log *slog.Logger) (*feed.Feed, error) {
	c := k.Config
	c.Listens = listens
	w, err := nft.New(c)
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	f, err := feed.Open(feed.Config{Writer: w, Max: k.Max, Shadow: k.Shadow, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	return f, nil
}

// kernelAttrs is what the start line says of the kernel that is fed; nothing if none is.
func (n *node) kernelAttrs() []any {
	if n.feed == nil {
		return nil
	}
	mode := "enforce"
	if n.cfg.Kernel.Shadow {
		mode = "shadow"
	}
	return []any{slog.Group("kernel", slog.String("table", "inet "+n.cfg.Kernel.Table), slog.String("mode", mode), slog.Int("max_bans", n.cfg.Kernel.Max))}
}

// closeKernel ends the drops: nothing may be left of them when the process has ended.
func (n *node) closeKernel() {
	if n.feed == nil {
		return
	}
	if err := n.feed.Close(); err != nil {
		n.log.Warn("kernel: closing", slog.Any("error", err))
	}
}
