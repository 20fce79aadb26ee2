package conn

import "log/slog"

// spareFiles are kept free for everything but the connections of clients:
// listeners, the admin's connections, Redis, other nodes, logs, and connections
// that were dismissed and have not ended yet.
const spareFiles = 256

const (
	// Bytes is what a connection takes of memory at most, the garbage
	// collector's headroom included: 21 KiB idle in fasthttp's hands, 13 KiB in a
	// stalled upload, 6 KiB idle after a simple request (resident memory by
	// connections, 5,000 to 14,744 of them, Go 1.26, amd64;
	// TestIdleConnectionsHoldLittle, TestStalledUploadsHoldLittle). A client may have
	// all its connections go to fasthttp, so this is not the least of them.
	Bytes = 24 << 10
	// LargeHeadBytes bounds the buffers of the larger readers, all together.
	LargeHeadBytes = 32 << 20
)

// FitDescriptors lowers a maximum of connections to what the limit on open files
// has room for, and says so: without descriptors nobody can be accepted, not
// even to end another connection.
func FitDescriptors(most int, log *slog.Logger) int { return fit(most, openFiles(), log) }

// fit knows the limit on open files; 0 means none.
func fit(most, files int, log *slog.Logger) int {
	room := max(files-spareFiles, files/2, 1)
	if files == 0 || most <= room {
		return most
	}
	log.Warn("connections.max is lowered to fit the limit of open files; raise that limit (LimitNOFILE, ulimit -n)",
		slog.Int("configured", most), slog.Int("max", room), slog.Int("open_files", files))
	return room
}
