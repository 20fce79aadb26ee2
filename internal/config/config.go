package config

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// Config is a checked configuration with defaults filled in. The zero value is
// not usable: call [Default], [Load] or [Parse]. It holds no locks; do not
// change it while others read it.
type Config struct {
	// Listeners take traffic. At least one.
	Listeners []server.Listener

	// DenyStatus is the status code of denials for listeners that set none, 400 to
	// 599. Listeners have it filled in already; Override needs it.
	DenyStatus int

	// Admin is the address of the admin listener, host:port.
	Admin string

	// DecideAPI opens POST /v1/decide on the traffic listeners too.
	DecideAPI bool

	// Memory is the size of the local tier in bytes.
	Memory int64

	// Connections bounds the connections of clients. Drain says how they end when
	// the server stops.
	Connections server.Connections
	Drain       server.Drain

	// DenialLogs is for how many clients a second a denial is logged. 0: none.
	DenialLogs int

	// Redis is the exact tier that nodes share. nil: each node has its own buckets.
	Redis *redisstore.Config

	// Cluster is how to find the nodes to exchange counts with. nil: none.
	Cluster *Cluster

	// TopTalkers is the number of clients of each rule that are tracked
	// individually. 0: none. With a cluster, Cluster.TopTalkers is used instead.
	TopTalkers int

	// Policy decides about requests. Its rules are valid and as the file has them:
	// burst, cost and escalate_at are zero where the file is silent, as package
	// fastlimit fills in their defaults.
	Policy policy.Settings

	// Whether the file sets client_ip_header and on_unnamed, for Warnings.
	headerGiven, unnamedGiven bool
}

// Cluster is how this node reaches the others, and how much it tells them.
type Cluster struct {
	gossip.Config
	TopTalkers int // of each rule
}

// Defaults of settings.
const (
	defaultListen     = "127.0.0.1:8080"
	DefaultAdmin      = "127.0.0.1:8081"
	defaultHeader     = "X-Forwarded-For"
	defaultTopTalkers = 1024 // without a cluster; fewer where memory is small

	maxDenialLogs = 100 // of package server
)

// Default is the configuration without file and flags: a decision service on
// 127.0.0.1:8080 and one rule for each client address.
func Default() *Config {
	c, err := Parse("default", []byte("rules: [{name: per-ip, key: ip, rate: 100/s, burst: 200}]"), nil)
	if err != nil {
		panic("BUG: config: the default: " + err.Error())
	}
	return c
}

// Limiter returns the configuration of the limiter, with rules in the order of
// Policy.Rules. With Redis it plans for a store, which the caller adds.
func (c *Config) Limiter() fastlimit.Config {
	lc := fastlimit.Config{Rules: c.Policy.Limits(), Memory: c.Memory, TopTalkers: c.TopTalkers}
	if c.Redis != nil {
		lc.Shared, lc.StoreTimeout = true, c.Redis.Timeout
	}
	if c.Cluster != nil {
		lc.Nodes, lc.TopTalkers = c.Cluster.MaxNodes, c.Cluster.TopTalkers
	}
	return lc
}
