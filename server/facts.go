package server

import (
	"cmp"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/accesslog"
	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// ConnectionBytes is the most memory that a connection takes, including the garbage
// collector's headroom, while its request's head has up to 4 KiB.
const ConnectionBytes = conn.Bytes

const defaultMaxConnections = 16384

// ConnectionMemory is roughly the most memory that all connections together take, in bytes, including long
// heads and the access log. A program that limits Go's memory adds it to [fastlimit.Plan.Memory].
func (c *Config) ConnectionMemory() int64 {
	n := int64(cmp.Or(c.Connections.Max, defaultMaxConnections))*ConnectionBytes + conn.LargeHeadBytes
	if c.AccessLog.File != "" {
		n += accesslog.Memory
	}
	return n
}

// fitDescriptors lowers the bounds on connections to fit the limit on open files.
func (c *Config) fitDescriptors() {
	behind := 0
	if c.Upstream != nil {
		behind = c.Upstream.MaxConnections
	}
	c.Connections.Max, behind = conn.FitDescriptors(c.Connections.Max, behind, c.Logger)
	if c.Upstream != nil {
		c.Upstream.MaxConnections = behind
	}
}

// GoMemory is how Go's garbage collector is bounded, for /v1/info.
type GoMemory struct {
	LimitBytes int64 `json:"limit_bytes"` // soft limit; 2^63-1: none
	GCPercent  int   `json:"gc_percent"`  // GOGC; -1: off
}

// StoreInfo is what /v1/info shows of the store that nodes share for exact checks.
type StoreInfo struct {
	Name     string        // of its section in the file: redis or postgres; redis if empty
	State    string        // of its circuit breaker
	Distance time.Duration // shortest recent round trip; 0: not known
	Timeout  time.Duration
	Late     uint64 // operations answered after Timeout

	Operations uint64 // sent to it
}

// Section is the name of its section in the file.
func (i *StoreInfo) Section() string { return cmp.Or(i.Name, "redis") }

// ListFileInfo is what /v1/info shows of a file with entries of a list.
type ListFileInfo struct {
	List    string // allow or deny
	File    string
	Entries int       // in force
	Read    time.Time // when they were read
	Error   string    // why they are not the file's current ones; "": they are
}

// ClusterInfo is what /v1/info shows of the cluster.
type ClusterInfo struct {
	Name     string
	Node     string // the name of this one
	Address  string // at which the others reach it
	MaxNodes int
	Interval time.Duration // between two exchanges of counts
	Lag      time.Duration // the most time until a count is charged everywhere; see [fastlimit.RulePlan.ClusterBound]
	Peers    []string      // those that are up
}
