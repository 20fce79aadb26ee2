package config

import (
	"time"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
	"github.com/fastlimit/fastlimit/sync/gossip"
)

// Config is a checked configuration with defaults filled in. The zero value is
// not usable: call [Default], [Load] or [Parse]. It holds no locks; do not
// change it while others read it.
type Config struct {
	// Server is what the file says of the server: all fields but those that the
	// caller fills in, such as Limiter and Logger. DenialLogs 0 means none here.
	Server server.Config

	// DenyStatus is the status code of denials for listeners that set none, 400 to
	// 599. Listeners have it filled in already; Override needs it.
	DenyStatus int

	// Limits is Memory and TopTalkers, those without a cluster. [Config.Limiter]
	// adds all that follows from other settings.
	Limits fastlimit.Config

	// Redis is the exact tier that nodes share. nil: each node has its own buckets.
	Redis *redisstore.Config

	// Postgres is likewise, in PostgreSQL. At most one of the two is set.
	Postgres *pgstore.Config

	// Cluster is how to find the nodes to exchange counts with. nil: none. It works
	// without Redis, but then it only shows the top talkers of all nodes.
	Cluster *Cluster

	// Kernel is where bans of peers are enforced besides. nil: in user space only.
	Kernel *Kernel

	// StateFile is where a node keeps what it must not forget when it is restarted. "": it
	// forgets.
	StateFile string

	// Policy decides about requests. Its rules are valid and as the file has them:
	// burst, cost and escalate_at are zero where the file is silent, as package
	// fastlimit fills in their defaults.
	Policy policy.Settings

	// Lists are the files of allow and deny, and what else these have. All their entries are
	// in Policy too.
	Lists lists.Config

	// Watch has the node reload when the file changes, or one of Files.
	Watch bool

	// File is what the configuration was read from, Files are those that its settings name and
	// that were read with it.
	File  string
	Files []string

	places map[string]place // of settings in File, by the paths of their fields

	// Whether the file sets client_ip_header and on_unnamed, for Warnings: their
	// values do not tell, as the defaults may be written out.
	headerGiven, unnamedGiven bool
	waitGiven                 bool // and wait

	fileWarnings []string // about files that the settings name
}

// Cluster is how this node reaches the others, and how much it tells them. TopTalkers
// is a field of the limiter, not of package gossip, but operators look for it here.
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
// 127.0.0.1:8080 and one rule for each client address. It is read from a text, so its
// defaults are those of a file.
func Default() *Config {
	c, err := Parse("default", []byte("rules: [{name: per-ip, key: ip, rate: 100/s, burst: 200}]"), nil)
	if err != nil {
		panic("BUG: config: the default: " + err.Error())
	}
	return c
}

// Store is what all shared stores have in common, whichever driver talks to them.
type Store struct {
	Name    string        // of its section in the file; metrics have it as a prefix
	Timeout time.Duration // longest time that a request waits for it
}

// Store returns the shared store that the file asks for. nil: each node has its own
// buckets. Whether there is one is decided here only, and which one is opened in
// cmd/fastlimit/store.go, so another driver is a case in each of the two.
func (c *Config) Store() *Store {
	if c.Redis != nil {
		return &Store{Name: "redis", Timeout: c.Redis.Timeout}
	}
	if c.Postgres != nil {
		return &Store{Name: "postgres", Timeout: c.Postgres.Timeout}
	}
	return nil
}

// WaitMemory is the most memory that requests take which wait for their places in line, in
// bytes, beside their connections: 0 if no rule lets any wait.
func (c *Config) WaitMemory() int64 {
	for i := range c.Policy.Rules {
		if c.Policy.Rules[i].Limit.MaxWait > 0 {
			return int64(c.Limits.Wait.Total) * fastlimit.WaiterBytes
		}
	}
	return 0
}

// ListMemory is the most memory that the entries of allow and deny take, in bytes: beside
// memory, with what is needed to replace them.
func (c *Config) ListMemory() int64 { return int64(c.Lists.Count()) * lists.EntryBytes }

// Limiter returns the configuration of the limiter, with rules in the order of
// Policy.Rules. With a shared store it plans for one, which the caller adds.
func (c *Config) Limiter() fastlimit.Config {
	lc := c.Limits
	lc.Rules, lc.Reserved = c.Policy.Limits(), c.Policy.OverrideMemory()
	if s := c.Store(); s != nil {
		lc.Shared, lc.StoreTimeout = true, s.Timeout
	}
	if c.Cluster != nil {
		lc.Nodes, lc.TopTalkers = c.Cluster.MaxNodes, c.Cluster.TopTalkers
	}
	return lc
}
