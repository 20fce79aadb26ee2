package server

import (
	"cmp"
	"time"

	"github.com/fastlimit/fastlimit/server/internal/conn"
)

// ConnectionBytes is what a connection takes of memory at most, the garbage
// collector's headroom included. LargeHeadBytes is what heads above 4 KiB take
// beside it, all connections together.
const (
	ConnectionBytes = conn.Bytes
	LargeHeadBytes  = conn.LargeHeadBytes
)

// ConnectionMemory is about what all connections take when there are as many as
// there may be, with as many long heads.
func (c *Config) ConnectionMemory() int64 {
	return int64(cmp.Or(c.Connections.Max, defaultMaxConnections))*ConnectionBytes + LargeHeadBytes
}

// GoMemory is how Go's garbage collector is kept within bounds, for /v1/info.
type GoMemory struct {
	LimitBytes int64 `json:"limit_bytes"` // soft limit; 2^63-1: none
	GCPercent  int   `json:"gc_percent"`  // GOGC; -1: off
}

// RedisInfo is what /v1/info tells of the shared exact tier.
type RedisInfo struct {
	State    string        // of the circuit breaker
	Distance time.Duration // the shortest round trip of late; 0: not known
	Timeout  time.Duration
	Late     uint64 // operations that were answered after Timeout
}

// ClusterInfo is what /v1/info tells of the other nodes.
type ClusterInfo struct {
	Name     string
	Node     string // the name of this one
	Address  string // at which the others reach it
	MaxNodes int
	Interval time.Duration // between two exchanges of counts
	Peers    []string      // that are up
}

// Lag is the L that bounds are told for: a count waits for a tick, and is
// charged within the next.
func (c *ClusterInfo) Lag() time.Duration { return 2 * c.Interval }
