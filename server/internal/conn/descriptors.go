package conn

import "log/slog"

// spareFiles are kept free for everything but the connections of clients:
// listeners, the admin's connections, Redis, other nodes, logs, and connections
// that were dismissed and have not ended yet.
const spareFiles = 256

const (
	// Bytes is what a connection takes of memory at most, the garbage
	// collector's headroom included: 21 KiB idle in fasthttp's hands, 13 KiB in a
	// stalled upload, 4 to 6 KiB idle after a simple request, and 2 KiB when parked
	// (resident memory by connections, 5,000 to 14,744 of them, Go 1.26, amd64;
	// TestIdleConnectionsHoldLittle, TestStalledUploadsHoldLittle). A client may have
	// all its connections go to fasthttp, so this is not the least of them.
	Bytes = 24 << 10
	// LargeHeadBytes bounds the buffers of the larger readers, all together.
	LargeHeadBytes = 32 << 20
)

// FitDescriptors lowers the maxima of connections, of clients and to servers behind, to
// what the limit on open files has room for, and says so: without descriptors nobody can
// be accepted, not even to end another connection.
func FitDescriptors(clients, behind int, log *slog.Logger) (fitClients, fitBehind int) {
	return fit(clients, behind, openFiles(), log)
}

// fit knows the limit on open files; 0 means none. A request that is passed on has a
// connection of each kind, so half of the room is enough behind.
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
