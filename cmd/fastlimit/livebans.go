package main

import (
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/metrics"
	"github.com/fastlimit/fastlimit/server"
)

// newBans makes what operators see of bans, and lets the server show it. Start it
// with the server.
func newBans(n *node, sc *server.Config) *bans.Set {
	s := bans.New(bans.Config{Limiter: sc.Limiter, Engine: sc.Engine, Log: n.log})
	sc.Bans = s
	sc.Collectors = append(sc.Collectors, metrics.Bans(s.Stats))
	return s
}
