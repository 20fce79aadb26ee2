package config

import (
	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/bucket/pgstore"
	"github.com/fastlimit/fastlimit/bucket/redisstore"
	"github.com/fastlimit/fastlimit/internal/lists"
	"github.com/fastlimit/fastlimit/policy"
	"github.com/fastlimit/fastlimit/server"
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

	fileWarnings []string // about files that the settings name
}

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

// WithRules returns c with other rules.
func (c *Config) WithRules(rules []policy.RuleSpec) *Config {
	next := *c
	next.Policy.Rules = rules
	return &next
}

// given reports whether the file sets a field: its value does not tell, as a default may be
// written out.
func (c *Config) given(field string) bool {
	_, ok := c.places[field]
	return ok
}
