package conn

import "log/slog"

// spareFiles are kept free for everything but clients' connections: listeners, the admin's connections,
// Redis, other nodes, logs, and dismissed connections that have not ended yet.
const spareFiles = 256

const (
	// Bytes is the most memory that a connection takes, including the garbage collector's headroom: 21 KiB
	// idle in fasthttp's hands, 13 KiB in a stalled upload, 4 to 6 KiB idle after a simple request, and 2 KiB
	// when parked (resident memory by connections, 5,000 to 14,744 of them, Go 1.26, amd64;
	// TestIdleConnectionsHoldLittle, TestStalledUploadsHoldLittle). A client can move all its connections to
	// fasthttp, so the highest one counts.
	Bytes = 24 << 10
	// LargeHeadBytes bounds the buffers of the larger readers, all together.
	LargeHeadBytes = 32 << 20
)

// FitDescriptors lowers the bounds on connections, from clients and to upstream servers, to fit the limit on
// open files, and logs that: without descriptors nobody can be accepted, not even to end another connection.
func FitDescriptors(clients, behind int, log *slog.Logger) (fitClients, fitBehind int) {
	return fit(clients, behind, openFiles(), log)
}

// fit is given the limit on open files; 0 means none. A request that is passed on uses a connection of each
// kind, so half of the room is enough for upstream servers.
func fit(clients, behind, files int, log *slog.Logger) (fitClients, fitBehind int) {
	room := max(files-spareFiles, files/2, 1)
	if files == 0 || clients+behind <= room {
		return clients, behind
	}
	const fix = " is lowered to fit the limit of open files; raise that limit (LimitNOFILE, ulimit -n)"
	lowered := func(what string, from, to int) {
		if to < from {
			log.Warn(what+fix, slog.Int("configured", from), slog.Int("max", to), slog.Int("open_files", files))
		}
	}
	if behind > 0 {
		fitBehind = max(1, min(behind, room/2))
		lowered("upstream.max_connections", behind, fitBehind)
	}
	fitClients = min(clients, max(1, room-fitBehind))
	lowered("connections.max", clients, fitClients)
	return fitClients, fitBehind
}
