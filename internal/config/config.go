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

	// DenyStatus is the status code of denials for listeners that name none,
	// 400 to 599. It is filled into Listeners already.
	DenyStatus int

	// Admin is the address of the admin listener, host:port.
	Admin string

	// DecideAPI opens POST /v1/decide on the traffic listeners too.
	DecideAPI bool

	// Memory is the size of the local tier in bytes.
	Memory int64

	// Connections bounds the connections of clients, Drain how they end when
	// the server stops.
	Connections server.Connections
	Drain       server.Drain

	// DenialLogs is the number of clients whose denials are logged in a second.
	DenialLogs int

	// Redis is the exact tier that nodes share; nil: the buckets of this node
	// are exact by themselves.
	Redis *redisstore.Config

	// Cluster is the nodes with which this one exchanges counts; nil: it is
	// alone.
	Cluster *Cluster

	// TopTalkers is the number of clients of each rule that are tracked
	// individually without a cluster; 0: none. With one it is the cluster's.
	TopTalkers int

	// Policy is all that decides about a request. Its rules are valid, and
	// carry what the file says: defaults that package fastlimit fills in
	// (burst, cost, escalate_at) are zero here.
	Policy policy.Settings

	// headerGiven tells that the file names client_ip_header, for Warnings.
	headerGiven bool
	// unnamedGiven tells the same of on_unnamed.
	unnamedGiven bool
}

// Cluster is how this node meets the others, and what it tells them.
type Cluster struct {
	gossip.Config
	TopTalkers int // of each rule
}

// Defaults of settings.
const (
	defaultListen     = "127.0.0.1:8080"
	DefaultAdmin      = "127.0.0.1:8081"
	defaultHeader     = "X-Forwarded-For"
	defaultTopTalkers = 1024 // without a cluster, and with memory for them

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

// Limiter is the part of the configuration that package fastlimit takes. The
// rules are in the order of Policy.Rules. Where there is a Redis it is planned
// for; serving adds the Store.
func (c *Config) Limiter() fastlimit.Config {
	lc := fastlimit.Config{Memory: c.Memory, TopTalkers: c.TopTalkers}
	if c.Redis != nil {
		lc.Shared, lc.StoreTimeout = true, c.Redis.Timeout
	}
	if c.Cluster != nil {
		lc.Nodes, lc.TopTalkers = c.Cluster.MaxNodes, c.Cluster.TopTalkers
	}
	for i := range c.Policy.Rules {
		r := c.Policy.Rules[i].Limit
		r.KeyKind = c.Policy.Rules[i].Kind()
		lc.Rules = append(lc.Rules, r)
	}
	return lc
}
