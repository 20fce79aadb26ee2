package main

import (
	"log/slog"
	"syscall"
)

const (
	// connectionsPerListener is the default of server.Config.MaxConnections.
	connectionsPerListener = 16384

	// otherDescriptors is room for the listeners, the admin's connections,
	// Redis, the cluster and the runtime.
	otherDescriptors = 128
)

// warnDescriptors warns if the process may not open as many files as it may
// take connections: accepting would pause in a flood of them. The runtime has
// raised the soft limit to the hard one by then.
func warnDescriptors(log *slog.Logger, connections int) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	need := uint64(connections) + otherDescriptors
	if limit.Cur >= need {
		return
	}
	log.Warn("the limit of open files is below the connections that are taken: clients beyond it must wait; raise it with LimitNOFILE or ulimit -n",
		slog.Uint64("limit", limit.Cur), slog.Int("connections", connections), slog.Uint64("want", need))
}
