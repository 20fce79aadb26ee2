package main

import (
	"log/slog"
	"runtime/debug"
	"runtime/metrics"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/server"
)

// memoryUse is what the configuration lets the process take, in bytes.
type memoryUse struct {
	// fixed is there from the start and stays: the limiter's tables, which are
	// in Go's heap and hold no pointers.
	fixed int64
	// most is what else there may be: connections, Redis, what peers tell.
	most int64
}

const (
	// baseBytes is what the process takes beside: code, metrics, admin.
	baseBytes = 32 << 20
	// garbageBytes is the heap that may be garbage before Go collects it, while
	// what is not fixed is small.
	garbageBytes = 32 << 20
	// redisBytes is for the queue and the buffers of the Redis store.
	redisBytes = 4 << 20
	// mirrorSlot and ownSlot are what a slot of a peer's table of top talkers
	// takes, and a slot of the local one beside the table itself.
	mirrorSlot, ownSlot = 100, 100
	// minGCPercent keeps the collector from running all the time beside large
	// tables, though these cost it nothing.
	minGCPercent = 5
)

// plannedMemory is what a server of this configuration may take.
func plannedMemory(cfg *config.Config, plan *fastlimit.Plan, sc *server.Config) memoryUse {
	u := memoryUse{fixed: plan.Memory, most: sc.ConnectionMemory()}
	if cfg.Redis != nil {
		u.most += redisBytes
	}
	for i := range plan.Rules {
		u.fixed += int64(plan.Rules[i].TopTalkers) * ownSlot
		if c := cfg.Cluster; c != nil {
			u.most += int64(plan.Rules[i].TopTalkers) * int64(c.MaxNodes) * mirrorSlot
		}
	}
	return u
}

// limit is Go's memory limit: all of it, and a quarter more of what comes and
// goes, so that the collector has room when all of that is in use.
func (u memoryUse) limit() int64 { return u.fixed + u.most + u.most/4 + baseBytes }

// gcPercent has Go collect when so much of the heap is garbage. By default that
// is as much as is in use, so that 128 MiB of tables let 128 MiB of garbage pile
// up, whatever little of it there is. It is a share of all that is in use, so
// garbage may still double what connections take when they take much.
func (u memoryUse) gcPercent() int {
	return max(minGCPercent, int(100*garbageBytes/(u.fixed+garbageBytes)))
}

// limitMemory tells Go how much memory to take, unless the operator has told it:
// by GOMEMLIMIT or GOGC. It returns what holds now.
func limitMemory(u memoryUse, lookupEnv func(string) (string, bool)) server.GoMemory {
	if v, _ := lookupEnv("GOMEMLIMIT"); v == "" {
		debug.SetMemoryLimit(u.limit())
	}
	if v, _ := lookupEnv("GOGC"); v == "" {
		debug.SetGCPercent(u.gcPercent())
	}
	return goMemory()
}

// goMemory reads what Go was told.
func goMemory() server.GoMemory {
	s := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	m := server.GoMemory{LimitBytes: int64(s[0].Value.Uint64()), GCPercent: -1} //nolint:gosec // a limit is an int64
	if percent := s[1].Value.Uint64(); percent < 1<<31 {
		m.GCPercent = int(percent)
	}
	return m
}

// memoryAttrs are what the start line says of memory.
func memoryAttrs(m server.GoMemory) []any {
	return []any{slog.Int64("memory_limit", m.LimitBytes), slog.Int("gc_percent", m.GCPercent)}
}
