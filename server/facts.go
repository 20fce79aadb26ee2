package server

import (
	"cmp"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// ConnectionBytes is the most memory that a connection takes, including the garbage
// collector's headroom. LargeHeadBytes is what heads above 4 KiB take in addition, for
// all connections together.
const (
	ConnectionBytes = conn.Bytes
	LargeHeadBytes  = conn.LargeHeadBytes
)

// ConnectionMemory is about the most memory that all connections together take, in
// bytes.
func (c *Config) ConnectionMemory() int64 {
	return int64(cmp.Or(c.Connections.Max, defaultMaxConnections))*ConnectionBytes + LargeHeadBytes
}

// GoMemory is how Go's garbage collector is kept within bounds, for /v1/info.
type GoMemory struct {
	LimitBytes int64 `json:"limit_bytes"` // soft limit; 2^63-1: none
	GCPercent  int   `json:"gc_percent"`  // GOGC; -1: off
}

// RedisInfo is what /v1/info shows of the shared exact tier.
type RedisInfo struct {
	State    string        // of the circuit breaker
	Distance time.Duration // shortest recent round trip; 0: not known
	Timeout  time.Duration
	Late     uint64 // operations answered after Timeout
}

// ClusterInfo is what /v1/info shows of the cluster.
type ClusterInfo struct {
	Name     string
	Node     string // the name of this one
	Address  string // at which the others reach it
	MaxNodes int
	Interval time.Duration // between two exchanges of counts
	Peers    []string      // that are up
}

// Lag is the L of the cluster's bounds: a count waits for one tick to be sent, and is
// charged within the next.
func (c *ClusterInfo) Lag() time.Duration { return 2 * c.Interval }
