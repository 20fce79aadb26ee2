package server

import (
	"cmp"
	"time"
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

type redisInfo struct {
	State        string  `json:"state"`
	DistanceSecs float64 `json:"distance_seconds"`
	TimeoutSecs  float64 `json:"timeout_seconds"`
	Late         uint64  `json:"late_operations"`
}

func (i *serverInfo) addRedis(r RedisInfo) {
	i.Redis = &redisInfo{State: r.State, DistanceSecs: r.Distance.Seconds(), TimeoutSecs: r.Timeout.Seconds(), Late: r.Late}
}
