package main

import (
	"log/slog"
	"runtime/debug"
	"runtime/metrics"

	"github.com/fastlimit/fastlimit"
	"github.com/fastlimit/fastlimit/internal/bans"
	"github.com/fastlimit/fastlimit/internal/config"
	"github.com/fastlimit/fastlimit/server"
)

// Go's collector is told how much memory the configuration can use, since its defaults
// suit neither a heap of a few large tables (GOGC 100 would double them) nor an attack,
// under which connections grow to their limit within seconds. What the process takes is
// documented in docs/operations.md and held to it by memory_test.go.

// memoryUse is how much memory the configuration lets the process use, in bytes.
type memoryUse struct {
	// fixed is allocated at the start and stays: the limiter's tables, which are
	// in Go's heap and contain no pointers.
	fixed int64
	// peak is the maximum of the rest: connections, requests that wait, live overrides, bans, lists, the shared store, the state file, counts of peers.
	peak int64
}

const (
	// baseBytes is for everything else: code, metrics, admin.
	baseBytes = 32 << 20
	// garbageBytes is how much garbage may pile up before Go collects it, as long
	// as little but the fixed memory is in use. Less costs CPU time, since
	// each collection has a fixed price; more costs memory that small machines lack.
	garbageBytes = 32 << 20
	// storeBytes is for the queue and the buffers of a shared store.
	storeBytes = 4 << 20
	// stateBytes is for writing the state file, besides a copy of half of the first-seen
	// filter, which takes a quarter of memory at most.
	stateBytes = 1 << 20
	// mirrorSlot is the bytes of a slot of a peer's table of top talkers; localSlot
	// is what a local slot takes in addition to the table itself.
	mirrorSlot, localSlot = 116, 100
	// minGCPercent keeps the collector from running all the time when the tables
	// are large.
	minGCPercent = 5
)

// plannedMemory is how much memory a server with this configuration may use. sc needs
// its Connections only, so this works before the server is built.
func plannedMemory(cfg *config.Config, plan *fastlimit.Plan, sc *server.Config) memoryUse {
	u := memoryUse{fixed: plan.Memory, peak: sc.ConnectionMemory() + cfg.WaitMemory() + liveMemory(cfg.Limits.Memory) + bans.Memory + cfg.ListMemory() + cfg.KernelMemory()}
	if cfg.Store() != nil {
		u.peak += storeBytes
	}
	if cfg.StateFile != "" {
		u.peak += cfg.Limits.Memory/8 + stateBytes
	}
	for i := range plan.Rules {
		u.fixed += int64(plan.Rules[i].TopTalkers) * localSlot
		if c := cfg.Cluster; c != nil {
			// A mirror of a peer's table is at most as large as this node's own.
			u.peak += int64(plan.Rules[i].TopTalkers) * int64(c.MaxNodes) * mirrorSlot
		}
	}
	return u
}

// limit is Go's memory limit: everything, and a quarter more of what is not fixed, so
// that the collector has headroom when all of it is in use.
func (u memoryUse) limit() int64 { return u.fixed + u.peak + u.peak/4 + baseBytes }

// gcPercent is the GOGC at which garbage stays below garbageBytes. With the default
// of 100 the heap may double before it is collected, so 128 MiB of tables would let
// 128 MiB of garbage pile up. GOGC is a share of all memory in use, so garbage may
// grow with connections.
func (u memoryUse) gcPercent() int {
	return max(minGCPercent, int(100*garbageBytes/(u.fixed+garbageBytes)))
}

// limitMemory sets Go's memory limits, except those that the operator has set by
// GOMEMLIMIT or GOGC. It returns the limits in force.
func limitMemory(u memoryUse, lookupEnv func(string) (string, bool)) server.GoMemory {
	if v, _ := lookupEnv("GOMEMLIMIT"); v == "" {
		debug.SetMemoryLimit(u.limit())
	}
	if v, _ := lookupEnv("GOGC"); v == "" {
		debug.SetGCPercent(u.gcPercent())
	}
	return goMemory()
}

// goMemory reads the limits in force.
func goMemory() server.GoMemory {
	s := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	m := server.GoMemory{LimitBytes: int64(s[0].Value.Uint64()), GCPercent: -1} // a limit is an int64
	if percent := s[1].Value.Uint64(); percent < 1<<31 {                        // GOGC=off reads as 2^64-1
		m.GCPercent = int(percent)
	}
	return m
}

// memoryAttrs are the memory limits in the log line at the start.
func memoryAttrs(m server.GoMemory) []any {
	return []any{slog.Int64("memory_limit", m.LimitBytes), slog.Int("gc_percent", m.GCPercent)}
}
